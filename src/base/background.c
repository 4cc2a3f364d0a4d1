/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/background.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metrics.h"

enum {
	OWED_MAX_MS = 100, /* a tick */
	AHEAD_MAX = 10,    /* ticks whose share they may have had before: for so long a core may be taken from them */
	GENTLE_MS = 25,    /* while they are owed no more, those that are lifted give way too */
	RUN_US = 250,      /* until a thread gives way */
	STEPS = 10,        /* of nice values; the highest is 19. The thread then gets a tenth of what others get */
};

struct background {
	TAILQ_ENTRY(background) next;
	pid_t thread;
	clockid_t clock; /* of its processor time */
	int64_t ran;
	int stat;   /* its file in /proc, open */
	bool helps; /* another one, which is owed for both */
	bool runs, wants, lifted;
	atomic_bool insists; /* it does not give way */
	atomic_bool leaves;
};

static TAILQ_HEAD(background_list, background) all = TAILQ_HEAD_INITIALIZER(all);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t share; /* of each tick, for each load */
static int64_t owed;  /* to all of them together: among themselves they are equals */
static _Thread_local struct background self;

static bool set_policy(pid_t thread, int policy)
{
	return sched_setscheduler(thread, policy, &(struct sched_param){0}) == 0;
}

/* ---- whether there is a way back ---- */

static bool begun, returns;
static int nice_value;

/* On Linux this is the thread's, not the process's. */
static void lower_priority(void)
{
	setpriority(PRIO_PROCESS, (id_t)gettid(), nice_value);
}

static void *go_and_return(void *arg)
{
	bool *returned = arg;
	lower_priority();
	*returned = set_policy(0, SCHED_IDLE) && set_policy(0, SCHED_OTHER);
	return NULL;
}

/* In a thread of its own, which stays where it is if there is none. */
void background_begin(unsigned percent)
{
	pthread_t thread;
	begun = percent < 100;
	if (!begun)
		return;
	share = percent * MS;
	nice_value = getpriority(PRIO_PROCESS, 0) + (percent < 100 / STEPS ? STEPS : 0);
	if (pthread_create(&thread, NULL, go_and_return, &returns) == 0)
		pthread_join(thread, NULL);
}

/* ---- entering and leaving ---- */

static int64_t time_of(clockid_t clock)
{
	struct timespec t;
	return clock_gettime(clock, &t) == 0 ? t.tv_sec * SECOND + t.tv_nsec : 0;
}

void background_enter(bool helps)
{
	if (!begun)
		return;
	lower_priority();
	self = (struct background){.thread = gettid(), .stat = -1, .helps = helps};
	if (!returns || pthread_getcpuclockid(pthread_self(), &self.clock) != 0)
		return;
	self.stat = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);
	if (self.stat < 0)
		return;
	self.ran = time_of(self.clock);
	pthread_mutex_lock(&lock);
	TAILQ_INSERT_HEAD(&all, &self, next);
	pthread_mutex_unlock(&lock);
	set_policy(0, SCHED_IDLE); /* not with the lock: then nobody would be lifted */
}

void background_leave(void)
{
	if (self.stat <= 0)
		return;
	atomic_store(&self.leaves, true);
	set_policy(0, SCHED_OTHER); /* as there */
	pthread_mutex_lock(&lock);
	TAILQ_REMOVE(&all, &self, next);
	pthread_mutex_unlock(&lock);
	close(self.stat);
}

void background_give_way(void)
{
	static _Thread_local int64_t since;
	if (self.stat <= 0 || atomic_load_explicit(&self.insists, memory_order_relaxed))
		return;
	if (clock_now() - since >= RUN_US * MS / 1000) {
		sched_yield();
		since = clock_now();
	}
}

/* ---- each tick ---- */

/* Whether it runs or waits for a core: the state of proc_pid_stat(5), behind a name in parentheses. */
static bool wants_core(const struct background *b)
{
	char text[128];
	ssize_t n = pread(b->stat, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	const char *name_end = strrchr(text, ')');
	return name_end && strncmp(name_end, ") R", 3) == 0;
}

/* Returns how long it ran since the last tick. */
static int64_t look_at(struct background *b)
{
	int64_t ran = time_of(b->clock), got = ran - b->ran;
	bool ran_before = b->runs;
	b->ran = ran;
	b->runs = got >= share || wants_core(b);
	b->wants = b->runs && ran_before;
	return got;
}

static void lift(struct background *b, bool up)
{
	if ((up || b->lifted) && set_policy(b->thread, up ? SCHED_OTHER : SCHED_IDLE))
		b->lifted = up;
	atomic_store_explicit(&b->insists, b->lifted && owed > GENTLE_MS * MS, memory_order_relaxed);
	if (atomic_load(&b->leaves)) /* perhaps only since: it waits for the lock */
		set_policy(b->thread, SCHED_OTHER);
}

static int64_t between(int64_t least, int64_t n, int64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* Few when they are owed little, so that they do not stand in a queue before a request; all when they are owed most. */
static int64_t how_many(int64_t wanting)
{
	int64_t most = OWED_MAX_MS * MS;
	return owed > 0 ? (wanting * owed + most - 1) / most : 0;
}

/* Those first that were not lifted for longest. */
static void lift_some(int64_t n)
{
	struct background *b = TAILQ_FIRST(&all), *last = TAILQ_LAST(&all, background_list), *next;
	for (; b; b = b == last ? NULL : next) {
		bool up = n > 0 && b->wants;
		next = TAILQ_NEXT(b, next);
		lift(b, up);
		if (up) {
			n--;
			TAILQ_REMOVE(&all, b, next);
			TAILQ_INSERT_TAIL(&all, b, next);
		}
	}
}

void background_tick(void)
{
	struct background *b;
	int64_t had = 0, wanting[2] = {0}; /* how many want a core of their own load, and as helpers */
	int64_t waiting = 0;               /* for a core most of the time since the last tick */
	static int64_t last;
	pthread_mutex_lock(&lock);
	int64_t now = clock_now(), passed = now - last;
	last = now;
	TAILQ_FOREACH(b, &all, next) {
		int64_t got = look_at(b);
		had += b->wants ? got : 0;
		wanting[b->helps] += b->wants;
		waiting += b->wants && got < passed / 2;
	}
	metric_set(M_LOADS_WAIT_PROCESSOR, waiting);
	/* A load's own thread and its helper want one at a time, or at the same time, but are owed once. */
	int64_t loads = wanting[0] > wanting[1] ? wanting[0] : wanting[1];
	owed = loads ? between(-AHEAD_MAX * share * loads, owed + share * loads - had, OWED_MAX_MS * MS) : 0;
	lift_some(how_many(wanting[0] + wanting[1]));
	pthread_mutex_unlock(&lock);
}
