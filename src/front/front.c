/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

/* Workers get events from epoll. What arrives is read as far as its parameters and then waits for its turn, mostly for
 * no time. Its handler runs on a fiber; where it pauses, because its slice is used up or its reader takes no more, the
 * fiber stays with the exchange and the worker goes on with another. */
#include "front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "front/fiber.h"
#include "base/held_back.h"
#include "base/log.h"
#include "base/permits.h"
#include "base/process.h"
#include "front/errands.h"
#include "front/exchange_private.h"

enum {
	WORKERS_A_CORE = 3,
	MORE_THAN_CORES = 1, /* workers that are awake */
	ACCEPTS_MAX = 64,    /* in a row, before another event is handled */
	FREE_MAX = 256,      /* exchanges kept for reuse */
	SPARE_MAX = 64,      /* fibers kept for reuse */
	RESERVE = 64,        /* connections that are accepted when no memory is left */
	EVENTS_MAX = 16,     /* taken at a time while others wait */
	VISITORS_MAX = 256,  /* looked at in a row */
	OUT_OF_DESCRIPTORS_MS = 50,
	NO_FIBER_MS = 10,
};

/* Processor time that an exchange uses before others get their turn: a few thousand frames. Twice as much is hardly
 * cheaper, and who waits would notice. */
static const int64_t slice = 2 * MS;

/* How long threads may take to end when all connections are cut off. */
static const int64_t end_bound = 5 * SECOND;

/* While draining, idle connections are waited for this long. nginx closes them after the keepalive_timeout of its
 * upstream; one that we close while nginx still holds it would cost it a request. */
static const int64_t idle_bound = 6 * SECOND;

struct connection {
	int fd;
	bool busy;                       /* held by a worker or an exchange; otherwise by epoll */
	struct exchange_private *writer; /* it has paused until more can be written */
	LIST_ENTRY(connection) all;
};

struct front {
	void (*handle)(struct exchange *);
	_Atomic(const struct config *) config;
	int64_t io_timeout;
	int epoll;
	int wake;  /* eventfd, edge-triggered and never read: each write wakes a worker */
	int stop;  /* eventfd, never read: it wakes all workers */
	int timer; /* timerfd: runs while there are readers that may be too slow, or visitors that may go */
	unsigned cores;
	sem_t awake;
	struct errands errands;
	struct worker *workers;
	unsigned worker_count;
	atomic_uint idle; /* workers that look for work, or sleep */

	pthread_mutex_t accepting; /* whose turn it is to use the listener */
	int listener;              /* -1: no longer */
	struct connection *next;   /* memory for the next one, without which none is accepted */

	atomic_bool draining;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t quiet; /* front_stop may have got what it waits for */
	unsigned running;     /* workers that have not ended */
	LIST_HEAD(, connection) connections;
	LIST_HEAD(, connection) reserve; /* memory of that many */
	unsigned reserved;
	struct turns turns;
	LIST_HEAD(, help_work) offered;          /* for those that are idle */
	unsigned helping;                        /* workers */
	pthread_cond_t helped;                   /* one of them has ended */
	unsigned paused;                         /* exchanges whose fibers have paused */
	LIST_HEAD(, exchange_private) readers;   /* those that wait for their readers */
	TAILQ_HEAD(, exchange_private) visitors; /* those at turnstiles; last the one that was looked at last */
	struct fiber *spare[SPARE_MAX];
	unsigned spare_count;
	STAILQ_HEAD(, exchange_private) free;
	unsigned free_count;
	unsigned exchanges; /* not on the free list: requests between their arrival and their release */
	bool stopped; /* no worker is left: exchanges that are resumed now are dropped, and the last frees the front */
};

struct worker {
	pthread_t thread;
	struct front *front;
	struct fiber *fiber;        /* for the next exchange */
	struct turn_client *client; /* who holds the worker */
};

/* ---- connections ---- */

static bool fill_reserve(struct front *f)
{
	for (; f->reserved < RESERVE; f->reserved++) {
		struct connection *c = malloc(sizeof *c);
		if (!c)
			return false;
		LIST_INSERT_HEAD(&f->reserve, c, all);
	}
	return true;
}

/* NULL when the reserve is in use, too. */
static struct connection *take_reserved(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	struct connection *c = LIST_FIRST(&f->reserve);
	if (c) {
		LIST_REMOVE(c, all);
		f->reserved--;
	}
	pthread_mutex_unlock(&f->lock);
	return c;
}

/* With f->accepting held. */
static bool have_next(struct front *f)
{
	if (!f->next)
		f->next = malloc(sizeof *f->next);
	if (!f->next)
		f->next = take_reserved(f);
	return f->next != NULL;
}

/* Takes ownership of the descriptor. With f->accepting held. */
static struct connection *connection_begin(struct front *f, int fd)
{
	struct connection *c = f->next;
	f->next = NULL;
	pthread_mutex_lock(&f->lock);
	*c = (struct connection){.fd = fd};
	LIST_INSERT_HEAD(&f->connections, c, all);
	pthread_mutex_unlock(&f->lock);
	metric_add(M_CONNECTIONS, 1);
	return c;
}

/* With f->lock held; the descriptor must be closed already. */
static void free_connection(struct front *f, struct connection *c)
{
	LIST_REMOVE(c, all);
	if (LIST_EMPTY(&f->connections))
		pthread_cond_signal(&f->quiet);
	metric_add(M_CONNECTIONS, -1);
	if (f->reserved == RESERVE) {
		free(c);
		return;
	}
	LIST_INSERT_HEAD(&f->reserve, c, all);
	f->reserved++;
}

static void connection_forget(struct front *f, struct connection *c)
{
	pthread_mutex_lock(&f->lock);
	free_connection(f, c);
	pthread_mutex_unlock(&f->lock);
}

static void connection_close(struct front *f, struct connection *c)
{
	close(c->fd);
	connection_forget(f, c);
}

/* Hands it to epoll, for one event; fd is its descriptor. It must not be busy any more. From here on it belongs to the
 * worker that gets the event, which takes the lock first, and so sees what was done before under the lock. This is done
 * without it, since a worker that loses its core here would keep all others waiting. (By its wrapper ThreadSanitizer
 * would see a use of the descriptor that no lock orders before its close.) */
static void connection_wait(struct front *f, struct connection *c, int fd, int op)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = c};
	if (syscall(SYS_epoll_ctl, f->epoll, op, fd, &event) != 0)
		connection_close(f, c);
}

static void set_timeouts(int fd, int64_t timeout)
{
	struct timeval t = {.tv_sec = timeout / SECOND, .tv_usec = timeout % SECOND / 1000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

/* Out of descriptors or memory: connections wait in the backlog, and one line a second goes to the log. */
static void rest_after(int error)
{
	static _Atomic int64_t logged;
	int64_t now = clock_now(), before = atomic_load(&logged);
	if (now - before > SECOND && atomic_compare_exchange_strong(&logged, &before, now))
		log_event(LOG_LEVEL_ERROR, "accept", "%s", strerror(error));
	poll(NULL, 0, OUT_OF_DESCRIPTORS_MS);
}

/* O_NONBLOCK belongs to the socket, which other processes may share and change: so it is checked each time, and
 * SO_RCVTIMEO, set at the start, ends an accept that blocks after all. */
static int accept_one(int listener)
{
	int flags = fcntl(listener, F_GETFL);
	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(listener, F_SETFL, flags | O_NONBLOCK);
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

/* At most so many. With f->accepting held. Returns 0 when the backlog is empty or the turn is over, else errno. */
static int accept_some(struct front *f, unsigned most)
{
	for (unsigned i = 0; i < most; i++) {
		if (!have_next(f))
			return ENOMEM;
		int fd = accept_one(f->listener);
		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0)
			return errno;
		set_timeouts(fd, f->io_timeout);
		connection_wait(f, connection_begin(f, fd), fd, EPOLL_CTL_ADD);
	}
	return 0;
}

static bool watch(struct front *f, int op, int fd, uint32_t events, void *tag)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};
	return epoll_ctl(f->epoll, op, fd, &event) == 0;
}

static bool arm_listener(struct front *f, int op)
{
	return watch(f, op, f->listener, EPOLLIN | EPOLLONESHOT, &f->listener);
}

/* One worker at a time. Once armed again, the listener is readable at once if connections still wait. */
static void handle_listener(struct front *f)
{
	int error = 0;
	pthread_mutex_lock(&f->accepting);
	if (f->listener >= 0)
		error = accept_some(f, ACCEPTS_MAX);
	pthread_mutex_unlock(&f->accepting);
	if (error)
		rest_after(error);
	pthread_mutex_lock(&f->accepting);
	if (f->listener >= 0)
		arm_listener(f, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&f->accepting);
}

/* ---- exchanges ---- */

static struct exchange_private *make_exchange(struct front *f)
{
	struct exchange_private *p = exchange_new();
	if (!p)
		return NULL;
	pthread_mutex_lock(&f->lock);
	bool room = turns_grow(&f->turns);
	pthread_mutex_unlock(&f->lock);
	if (!room) {
		exchange_free(p);
		return NULL;
	}
	p->front = f;
	return p;
}

static void front_free(struct front *f);

/* With f->lock held. Whether p is kept for another request; p may be NULL. */
static bool keep_exchange(struct front *f, struct exchange_private *p)
{
	bool keep = p && f->free_count < FREE_MAX;
	if (keep) {
		STAILQ_INSERT_HEAD(&f->free, p, next);
		f->free_count++;
	} else if (p) {
		turns_shrink(&f->turns);
	}
	metric_add(M_REQUESTS_IN_FLIGHT, -1);
	if (--f->exchanges == 0)
		pthread_cond_signal(&f->quiet);
	return keep;
}

/* It ends; c is the connection if that waits for another request, or NULL. p may be NULL: there was no memory for it.
 */
static void give_exchange(struct front *f, struct exchange_private *p, struct connection *c)
{
	pthread_mutex_lock(&f->lock);
	bool keep = keep_exchange(f, p), last = f->exchanges == 0 && f->stopped;
	int fd = c ? c->fd : -1;
	if (c)
		c->busy = false;
	pthread_mutex_unlock(&f->lock);
	if (p && !keep)
		exchange_free(p);
	if (c)
		connection_wait(f, c, fd, EPOLL_CTL_MOD);
	if (last)
		front_free(f);
}

bool front_keeps(const struct front *f)
{
	return !atomic_load(&f->draining);
}

static bool leave_turnstile(struct exchange_private *p);

void front_release(struct exchange_private *p)
{
	struct front *f = p->front;
	struct connection *c = p->connection;
	leave_turnstile(p);
	if (exchange_end(p) < 0) {
		connection_forget(f, c);
		c = NULL;
	}
	give_exchange(f, p, c);
}

/* Without a reply. */
static void drop_exchange(struct exchange_private *p)
{
	if (p->x.dropped)
		p->x.dropped(&p->x);
	fcgi_request_shut(p->fcgi);
	front_release(p);
}

/* A worker that sleeps looks for work. */
static void wake_worker(struct front *f)
{
	uint64_t one = 1;
	/* This never blocks: the count cannot come near 2^64. */
	if (write(f->wake, &one, sizeof one) < 0)
		log_event(LOG_LEVEL_ERROR, "wake", "%s", strerror(errno));
}

/* ---- turns ---- */

/* With f->lock held: an exchange that has been used before, or NULL. */
static struct exchange_private *take_free(struct front *f)
{
	struct exchange_private *p = STAILQ_FIRST(&f->free);
	metric_add(M_REQUESTS_IN_FLIGHT, 1);
	f->exchanges++;
	if (!p)
		return NULL;
	STAILQ_REMOVE_HEAD(&f->free, next);
	f->free_count--;
	return p;
}

/* Begins an exchange, in p if that is not NULL, with what arrived: a request, or nonsense. NULL: there is none. */
static struct exchange_private *begin_exchange(struct front *f, struct connection *c, struct exchange_private *p)
{
	p = p ? p : make_exchange(f);
	if (!p)
		close(c->fd);
	if (p && exchange_begin(p, atomic_load(&f->config), c->fd)) {
		p->connection = c;
		p->resumed = f->handle;
		return p;
	}
	connection_forget(f, c);
	give_exchange(f, p, NULL);
	return NULL;
}

/* Something happened on a connection: a request arrived, or the reader of a reply takes more of it, or has gone. The
 * exchange that is to wait for its turn; NULL: none. */
static struct exchange_private *handle_connection(struct front *f, struct connection *c)
{
	struct exchange_private *p, *used = NULL;
	pthread_mutex_lock(&f->lock);
	p = c->writer;
	if (p) {
		c->writer = NULL;
		LIST_REMOVE(p, readers);
		p->reply.waited += clock_now() - p->paused_at;
	} else {
		c->busy = true;
		used = take_free(f);
	}
	pthread_mutex_unlock(&f->lock);
	if (!p)
		return begin_exchange(f, c, used);
	metric_add(M_REPLIES_WAITING, -1);
	return p;
}

void exchange_resume(struct exchange *x, void (*fn)(struct exchange *x))
{
	struct exchange_private *p = exchange_private(x);
	struct front *f = p->front;
	p->resumed = fn;
	pthread_mutex_lock(&f->lock);
	bool dropped = f->stopped;
	if (!dropped) {
		turns_add(&f->turns, &p->turn);
		/* Under the lock, so that the front still exists. */
		wake_worker(f);
	}
	pthread_mutex_unlock(&f->lock);
	if (dropped)
		drop_exchange(p);
}

void exchange_wake(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	struct front *f = p->front;
	pthread_mutex_lock(&f->lock);
	p->woken = !p->asleep;
	if (p->asleep) {
		p->asleep = false;
		turns_add(&f->turns, &p->turn);
		wake_worker(f);
	}
	pthread_mutex_unlock(&f->lock);
}

/* Who waits for its turn and has not begun, or waited for something else: it is dropped. Returns how many. */
static unsigned drop_waiting(struct front *f)
{
	struct turn_list begun = TAILQ_HEAD_INITIALIZER(begun), others = TAILQ_HEAD_INITIALIZER(others);
	struct turn *turn;
	unsigned count = 0;
	pthread_mutex_lock(&f->lock);
	while ((turn = turns_remove(&f->turns)))
		TAILQ_INSERT_TAIL(exchange_of(turn)->paused ? &begun : &others, turn, next);
	while ((turn = TAILQ_FIRST(&begun))) {
		TAILQ_REMOVE(&begun, turn, next);
		turns_add(&f->turns, turn);
	}
	pthread_mutex_unlock(&f->lock);
	for (; (turn = TAILQ_FIRST(&others)); count++) {
		TAILQ_REMOVE(&others, turn, next);
		drop_exchange(exchange_of(turn));
	}
	return count;
}

/* ---- slow readers ---- */

/* How often readers are looked at, and who has gone: they are given up so much too late at most. */
static void run_timer(struct front *f, bool on)
{
	int64_t every = !on ? 0 : f->io_timeout < SECOND ? f->io_timeout / 4 : SECOND / 4;
	struct timespec t = {.tv_sec = every / SECOND, .tv_nsec = every % SECOND};
	struct itimerspec times = {t, t};
	timerfd_settime(f->timer, 0, &times, NULL);
}

/* Whether they have gone. With f->lock held; not all, if they are many. */
static void look_at_visitors(struct front *f)
{
	struct exchange_private *p;
	for (unsigned i = 0; i < VISITORS_MAX && (p = TAILQ_FIRST(&f->visitors)); i++) {
		if (exchange_gone(&p->x))
			atomic_store(&p->gone, true);
		TAILQ_REMOVE(&f->visitors, p, visitors);
		TAILQ_INSERT_TAIL(&f->visitors, p, visitors);
	}
}

/* Readers that are too slow are cut off: their exchanges go on, and find it out. */
static void handle_timer(struct front *f)
{
	struct exchange_private *p;
	uint64_t times;
	int64_t now = clock_now();
	if (read(f->timer, &times, sizeof times) < 0)
		return;
	pthread_mutex_lock(&f->lock);
	LIST_FOREACH(p, &f->readers, readers)
		if (now - p->paused_at > p->patience)
			shutdown(p->connection->fd, SHUT_RDWR);
	look_at_visitors(f);
	if (LIST_EMPTY(&f->readers) && TAILQ_EMPTY(&f->visitors))
		run_timer(f, false);
	pthread_mutex_unlock(&f->lock);
	turnstiles_tick(now);
}

/* With f->lock held. The exchange has its turn when its connection takes more. */
static void await_reader(struct front *f, struct exchange_private *p)
{
	struct connection *c = p->connection;
	if (!watch(f, EPOLL_CTL_MOD, c->fd, EPOLLOUT | EPOLLONESHOT, c)) {
		shutdown(c->fd, SHUT_RDWR);
		turns_add(&f->turns, &p->turn);
		return;
	}
	if (LIST_EMPTY(&f->readers) && TAILQ_EMPTY(&f->visitors))
		run_timer(f, true);
	c->writer = p;
	p->paused_at = clock_now();
	LIST_INSERT_HEAD(&f->readers, p, readers);
	metric_add(M_REPLIES_WAITING, 1);
}

/* ---- fibers ---- */

/* The worker has a fiber for another exchange; false: there is no memory for one. */
static bool worker_has_fiber(struct worker *w)
{
	struct front *f = w->front;
	if (w->fiber)
		return true;
	pthread_mutex_lock(&f->lock);
	if (f->spare_count)
		w->fiber = f->spare[--f->spare_count];
	pthread_mutex_unlock(&f->lock);
	if (!w->fiber)
		w->fiber = fiber_new();
	return w->fiber != NULL;
}

static void spare_fiber(struct front *f, struct fiber *fiber)
{
	pthread_mutex_lock(&f->lock);
	bool keep = f->spare_count < SPARE_MAX;
	if (keep)
		f->spare[f->spare_count++] = fiber;
	pthread_mutex_unlock(&f->lock);
	if (!keep)
		fiber_free(fiber);
}

static void keep_fiber(struct worker *w, struct fiber *fiber)
{
	if (w->fiber)
		spare_fiber(w->front, fiber);
	else
		w->fiber = fiber;
}

bool front_pause(struct exchange_private *p, enum pause why)
{
	if (p->worker ? !worker_has_fiber(p->worker) : p->turnstile != NULL)
		return false;
	p->why = why;
	fiber_pause(p->fiber);
	return true;
}

void exchange_sleep(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	while (!front_pause(p, PAUSE_SLEEP)) {
		permit_give();
		poll(NULL, 0, NO_FIBER_MS);
	}
}

static int64_t processor_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

/* The first half of a slice is measured by the clock and the second by the processor's time, which is asked as rarely
 * as may be: that is a system call. */
static bool slice_is_over(struct exchange_private *p)
{
	int64_t now = clock_now(), used, left;
	if (!p->look_at)
		p->look_at = now + slice / 2;
	if (now < p->look_at)
		return false;
	used = processor_time();
	if (!p->slice_time)
		p->slice_time = used;
	left = slice / 2 - (used - p->slice_time);
	p->look_at = now + (left > slice / 16 ? left : slice / 16);
	return left <= 0;
}

bool exchange_turn(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	if (!slice_is_over(p))
		return true;
	p->look_at = p->slice_time = 0;
	if (!p->worker && p->turnstile)
		return !exchange_gone(x);
	/* also when nobody waits for the reply: not every caller can stop at once */
	front_pause(p, PAUSE_TURN);
	return !exchange_gone(x);
}

/* ---- help ---- */

/* With f->lock held: whether a worker that has nothing else to do, or helps already, may help. */
static bool may_help(const struct front *f, unsigned others)
{
	return TAILQ_EMPTY(&f->turns.order) && f->turns.busy + others < f->cores;
}

void exchange_offer(struct exchange *x, struct help_work *w)
{
	struct front *f = exchange_private(x)->front;
	pthread_mutex_lock(&f->lock);
	w->helpers = 0;
	w->is_listed = true;
	LIST_INSERT_HEAD(&f->offered, w, next);
	bool wanted = may_help(f, f->helping);
	pthread_mutex_unlock(&f->lock);
	if (wanted && atomic_load(&f->idle))
		wake_worker(f);
}

/* With f->lock held. */
static void unlist(struct help_work *w)
{
	if (w->is_listed)
		LIST_REMOVE(w, next);
	w->is_listed = false;
}

/* A helper is never far from its end, and holds nothing that the caller holds. */
void exchange_take_back(struct exchange *x, struct help_work *w)
{
	struct front *f = exchange_private(x)->front;
	pthread_mutex_lock(&f->lock);
	unlist(w);
	while (w->helpers)
		pthread_cond_wait(&f->helped, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

/* What an idle worker may help with, or NULL. */
static struct help_work *take_work(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	struct help_work *w = may_help(f, f->helping) ? LIST_FIRST(&f->offered) : NULL;
	if (w) {
		w->helpers++;
		f->helping++;
	}
	pthread_mutex_unlock(&f->lock);
	return w;
}

struct helping {
	struct front *front;
	int64_t look_at;
};

/* Whether nobody else needs the worker; looked at once in half a slice. */
static bool may_go_on(void *arg)
{
	struct helping *h = arg;
	struct front *f = h->front;
	int64_t now = clock_now();
	if (now < h->look_at)
		return true;
	h->look_at = now + slice / 2;
	pthread_mutex_lock(&f->lock);
	bool may = may_help(f, f->helping - 1);
	pthread_mutex_unlock(&f->lock);
	return may;
}

static void help(struct front *f, struct help_work *w)
{
	struct helping h = {f, 0};
	const struct yield y = {may_go_on, &h};
	w->run(w, &y);
	pthread_mutex_lock(&f->lock);
	if (may_help(f, f->helping - 1))
		unlist(w); /* nothing is left */
	w->helpers--;
	f->helping--;
	pthread_cond_broadcast(&f->helped);
	pthread_mutex_unlock(&f->lock);
}

static void run_handler(void *arg)
{
	struct exchange_private *p = arg;
	p->resumed(&p->x);
}

/* With f->lock held. */
static void settle_paused(struct front *f, struct exchange_private *p)
{
	p->paused = p->turn.begun = true;
	f->paused++;
	if (p->why == PAUSE_READER)
		await_reader(f, p);
	else if (p->why == PAUSE_ERRAND)
		errands_add(&f->errands, p);
	else if (p->why == PAUSE_TURN || p->woken)
		turns_add(&f->turns, &p->turn);
	else
		p->asleep = true;
	p->woken = false;
}

/* With f->lock held. */
static void end_turn(struct worker *w)
{
	if (w->client)
		turns_done(&w->front->turns, w->client);
	w->client = NULL;
}

/* Runs the exchange until it is answered, is parked by its handler, or pauses. */
static void run_exchange(struct worker *w, struct exchange_private *p)
{
	struct front *f = w->front;
	bool paused = p->paused, ended;
	struct fiber *fiber = paused ? p->fiber : w->fiber;
	p->paused = false;
	p->fiber = fiber;
	p->worker = w;
	p->look_at = p->slice_time = 0;
	if (!paused)
		w->fiber = NULL;
	ended = paused ? fiber_resume(fiber) : fiber_run(fiber, run_handler, p);
	/* If it has ended, p is gone. */
	if (ended)
		keep_fiber(w, fiber);
	bool stays = permit_held();
	if (ended && !paused && stays)
		return;
	pthread_mutex_lock(&f->lock);
	f->paused -= paused;
	if (!ended)
		settle_paused(f, p);
	end_turn(w);
	bool ready = turns_ready(&f->turns);
	pthread_mutex_unlock(&f->lock);
	/* This worker may have to wait for a permit while others that have one sleep. */
	if (ready && !stays && atomic_load(&f->idle))
		wake_worker(f);
}

/* ---- errands ---- */

static void visit_called(struct visit *v)
{
	exchange_wake(&exchange_of_visit(v)->x);
}

static bool visitor_has_gone(const struct visit *v)
{
	return atomic_load(&exchange_of_visit((struct visit *)(uintptr_t)v)->gone);
}

/* It is looked at now and then whether it has gone. */
static void visit_turnstile(struct exchange_private *p, struct turnstile *t)
{
	struct front *f = p->front;
	p->turnstile = t;
	atomic_store(&p->gone, false);
	pthread_mutex_lock(&f->lock);
	if (LIST_EMPTY(&f->readers) && TAILQ_EMPTY(&f->visitors))
		run_timer(f, true);
	TAILQ_INSERT_TAIL(&f->visitors, p, visitors);
	pthread_mutex_unlock(&f->lock);
}

/* Returns whether it was at one. */
static bool leave_turnstile(struct exchange_private *p)
{
	struct turnstile *t = p->turnstile;
	if (!t)
		return false;
	pthread_mutex_lock(&p->front->lock);
	TAILQ_REMOVE(&p->front->visitors, p, visitors);
	pthread_mutex_unlock(&p->front->lock);
	p->turnstile = NULL;
	if (p->visit.state == VISIT_INSIDE)
		turnstile_leave(t, &p->visit);
	return true;
}

enum err exchange_enter(struct exchange *x, struct turnstile *t, struct error *e)
{
	struct exchange_private *p = exchange_private(x);
	struct visit *v = &p->visit;
	*v = (struct visit){.turn.client = x->client,
	        .prefix = (unsigned)x->config->client_ipv6_prefix,
	        .called = visit_called,
	        .gone = visitor_has_gone,
	        .until = clock_now() + x->config->cold_wait};
	visit_turnstile(p, t);
	if (turnstile_enter(t, v) == VISIT_WAITS)
		exchange_sleep(x);
	const bool inside = v->state == VISIT_INSIDE;
	if (inside && front_pause(p, PAUSE_ERRAND))
		return ERR_OK;
	leave_turnstile(p);
	if (inside || v->state == VISIT_NO_MEMORY)
		return no_memory(e);
	return exchange_gone(x) ? error_set(e, ERR_GONE, "the client went away")
	                        : error_set(e, ERR_BUSY, "too many %s at a time; try again", turnstile_name(t->what));
}

void exchange_leave(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	if (leave_turnstile(p))
		front_pause(p, PAUSE_TURN);
}

const atomic_bool *exchange_cancel(const struct exchange *x)
{
	return &exchange_private(x)->gone;
}

/* For a thread of errands: runs the exchange until it is answered, or pauses without a place. */
static void run_errand(struct exchange_private *p)
{
	struct front *f = p->front;
	struct fiber *fiber = p->fiber;
	p->paused = false;
	p->worker = NULL;
	p->look_at = p->slice_time = 0;
	/* If it has ended, p is gone. */
	const bool ended = fiber_resume(fiber);
	if (ended)
		spare_fiber(f, fiber);
	pthread_mutex_lock(&f->lock);
	f->paused--;
	if (!ended) {
		settle_paused(f, p);
		wake_worker(f);
	}
	pthread_mutex_unlock(&f->lock);
}

/* ---- workers ---- */

/* False: the workers are to end. *p: the exchange that is to wait for its turn, or NULL. */
static bool handle_event(struct front *f, const struct epoll_event *event, struct exchange_private **p)
{
	*p = NULL;
	if (event->data.ptr == &f->stop)
		return false;
	if (event->data.ptr == &f->listener)
		handle_listener(f);
	else if (event->data.ptr == &f->timer)
		handle_timer(f);
	else if (event->data.ptr != &f->wake)
		*p = handle_connection(f, event->data.ptr);
	return true;
}

/* While some wait, others must not stand behind them unseen. */
static void take_events(struct front *f)
{
	struct epoll_event events[EVENTS_MAX];
	struct exchange_private *p;
	int n = epoll_wait(f->epoll, events, EVENTS_MAX, 0);
	for (int i = 0; i < n; i++) {
		handle_event(f, &events[i], &p);
		if (!p)
			continue;
		pthread_mutex_lock(&f->lock);
		turns_add(&f->turns, &p->turn);
		pthread_mutex_unlock(&f->lock);
	}
}

/* Whose turn it is; NULL: nobody's. `arrived`, if not NULL, comes last. */
static struct exchange_private *next_exchange(struct worker *w, struct exchange_private *arrived)
{
	struct front *f = w->front;
	pthread_mutex_lock(&f->lock);
	end_turn(w);
	if (!TAILQ_EMPTY(&f->turns.order)) {
		pthread_mutex_unlock(&f->lock);
		take_events(f);
		pthread_mutex_lock(&f->lock);
	}
	if (arrived)
		turns_add(&f->turns, &arrived->turn);
	struct turn *turn = turns_next(&f->turns, &w->client);
	bool more = turn && turns_ready(&f->turns);
	struct client_key held_back = f->turns.held_back;
	unsigned held_back_count = f->turns.held_back_count;
	f->turns.held_back_count = 0;
	pthread_mutex_unlock(&f->lock);
	if (held_back_count)
		held_back_note(held_back, held_back_count, (unsigned)atomic_load(&f->config)->client_ipv6_prefix);
	/* This worker is one of the idle ones. */
	if (more && atomic_load(&f->idle) > 1)
		wake_worker(f);
	return turn ? exchange_of(turn) : NULL;
}

/* Paused exchanges have a stack, so they end first. */
static bool may_end(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	bool none = f->paused == 0;
	pthread_mutex_unlock(&f->lock);
	if (!none)
		poll(NULL, 0, 1);
	return none;
}

/* A worker counts as idle before it looks whether there is work, so whoever adds some later sees it. */
static void work(struct worker *w)
{
	struct front *f = w->front;
	struct exchange_private *arrived = NULL;
	for (;;) {
		struct epoll_event event;
		struct help_work *offered = NULL;
		int n = 0;
		permit_take(&f->awake);
		atomic_fetch_add(&f->idle, 1);
		struct exchange_private *p = next_exchange(w, arrived);
		arrived = NULL;
		if (!p && !(offered = take_work(f)))
			n = epoll_wait(f->epoll, &event, 1, -1);
		atomic_fetch_sub(&f->idle, 1);
		if (p)
			run_exchange(w, p);
		else if (offered)
			help(f, offered);
		else if (n < 0 && errno != EINTR) {
			log_event(LOG_LEVEL_ERROR, "epoll", "%s", strerror(errno));
			return;
		} else if (n > 0 && !handle_event(f, &event, &arrived) && may_end(f))
			return;
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct front *f = w->front;
	work(w);
	pthread_mutex_lock(&f->lock);
	end_turn(w);
	if (--f->running == 0)
		pthread_cond_signal(&f->quiet);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static enum err start_workers(struct front *f, unsigned count, struct error *e)
{
	f->workers = calloc(count, sizeof *f->workers);
	if (!f->workers)
		return no_memory(e);
	for (; f->worker_count < count; f->worker_count++) {
		char name[16];
		struct worker *w = &f->workers[f->worker_count];
		w->front = f;
		/* The record of a client may be held by a worker when its exchange has gone. */
		if (!turns_grow(&f->turns) || !worker_has_fiber(w))
			return no_memory(e);
		pthread_mutex_lock(&f->lock);
		int failed = pthread_create(&w->thread, NULL, worker_main, w);
		if (!failed)
			f->running++;
		pthread_mutex_unlock(&f->lock);
		if (failed)
			return error_set(e, ERR_IO, "thread: %s", strerror(failed));
		snprintf(name, sizeof name, "worker-%u", f->worker_count);
		pthread_setname_np(w->thread, name);
	}
	return ERR_OK;
}

/* False if not all have ended in time: one may wait for a store, say. */
static bool stop_workers(struct front *f)
{
	const int64_t until = clock_now() + end_bound;
	uint64_t one = 1;
	if (write(f->stop, &one, sizeof one) < 0)
		log_event(LOG_LEVEL_ERROR, "stop", "%s", strerror(errno));
	permits_end(&f->awake, f->worker_count);
	pthread_mutex_lock(&f->lock);
	while (f->running && clock_wait(&f->quiet, &f->lock, until))
		;
	bool ended = !f->running;
	pthread_mutex_unlock(&f->lock);
	ended = ended && errands_stop(&f->errands, until);
	for (unsigned i = 0; i < f->worker_count; i++)
		if (ended)
			pthread_join(f->workers[i].thread, NULL);
		else
			pthread_detach(f->workers[i].thread);
	return ended;
}

/* ---- start and stop ---- */

static void close_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void front_free(struct front *f)
{
	struct exchange_private *p;
	while ((p = STAILQ_FIRST(&f->free))) {
		STAILQ_REMOVE_HEAD(&f->free, next);
		exchange_free(p);
	}
	for (struct connection *c; (c = take_reserved(f));)
		free(c);
	while (f->spare_count)
		fiber_free(f->spare[--f->spare_count]);
	for (unsigned i = 0; f->workers && i < f->turns.places; i++)
		fiber_free(f->workers[i].fiber);
	turns_destroy(&f->turns);
	close_open(f->listener);
	close_open(f->wake);
	close_open(f->timer);
	close_open(f->stop);
	close_open(f->epoll);
	sem_destroy(&f->awake);
	pthread_cond_destroy(&f->quiet);
	pthread_cond_destroy(&f->helped);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->accepting);
	free(f->next);
	free(f->workers);
	free(f);
}

static bool open_descriptors(struct front *f)
{
	/* See accept_one. */
	set_timeouts(f->listener, 100 * MS);
	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	f->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	f->stop = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	f->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return f->epoll >= 0 && f->wake >= 0 && f->stop >= 0 && f->timer >= 0 &&
	       watch(f, EPOLL_CTL_ADD, f->wake, EPOLLIN | EPOLLET, &f->wake) &&
	       watch(f, EPOLL_CTL_ADD, f->stop, EPOLLIN, &f->stop) &&
	       watch(f, EPOLL_CTL_ADD, f->timer, EPOLLIN, &f->timer);
}

struct front *front_start(const struct config *c, int fd, void (*handle)(struct exchange *), struct error *e)
{
	struct front *f = calloc(1, sizeof *f);
	if (!f) {
		close(fd);
		no_memory(e);
		return NULL;
	}
	f->handle = handle;
	f->listener = fd;
	f->io_timeout = c->io_timeout;
	STAILQ_INIT(&f->free);
	TAILQ_INIT(&f->visitors);
	const unsigned workers = c->workers ? (unsigned)c->workers : WORKERS_A_CORE * cores_count();
	turns_init(&f->turns, workers, random_u64());
	atomic_init(&f->config, c);
	f->cores = cores_count();
	sem_init(&f->awake, 0, f->cores + MORE_THAN_CORES);
	pthread_mutex_init(&f->accepting, NULL);
	pthread_mutex_init(&f->lock, NULL);
	clock_condition_init(&f->quiet);
	pthread_cond_init(&f->helped, NULL);
	enum err err = ERR_OK;
	if (!open_descriptors(f) || !fcgi_library_init())
		err = error_set(e, ERR_IO, "the front: %s", strerror(errno));
	if (!err && !fill_reserve(f))
		err = no_memory(e);
	if (!err && !errands_start(&f->errands, run_errand))
		err = error_set(e, ERR_IO, "no thread: %s", strerror(errno));
	if (!err)
		err = start_workers(f, workers, e);
	/* Last, so that nothing is accepted if there are no workers. */
	if (!err && !arm_listener(f, EPOLL_CTL_ADD))
		err = error_set(e, ERR_IO, "the listening socket: %s", strerror(errno));
	if (!err)
		return f;
	stop_workers(f);
	front_free(f);
	return NULL;
}

void front_set_config(struct front *f, const struct config *c)
{
	atomic_store(&f->config, c);
}

/* Accepts the backlog before the listener goes. The socket itself is not shut down: systemd may hold it. */
static void stop_listening(struct front *f)
{
	pthread_mutex_lock(&f->accepting);
	accept_some(f, (unsigned)atomic_load(&f->config)->listen_backlog + 1);
	epoll_ctl(f->epoll, EPOLL_CTL_DEL, f->listener, NULL);
	close(f->listener);
	f->listener = -1;
	pthread_mutex_unlock(&f->accepting);
}

/* Returns the number of requests still in progress when the time is up. */
static unsigned drain(struct front *f, int64_t bound)
{
	int64_t now = clock_now(), end = now + bound, idle_end = now + (bound < idle_bound ? bound : idle_bound);
	pthread_mutex_lock(&f->lock);
	while (!LIST_EMPTY(&f->connections) && clock_wait(&f->quiet, &f->lock, idle_end))
		;
	while (f->exchanges && clock_wait(&f->quiet, &f->lock, end))
		;
	unsigned left = f->exchanges;
	pthread_mutex_unlock(&f->lock);
	return left;
}

/* Ends the reads and writes that block workers, so that they can be joined. */
static void cut_off(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	struct connection *c;
	LIST_FOREACH(c, &f->connections, all)
		shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&f->lock);
}

/* After the last worker has ended. Connections of parked exchanges stay with them. */
static void close_idle(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	for (struct connection *c = LIST_FIRST(&f->connections), *next; c; c = next) {
		next = LIST_NEXT(c, all);
		if (c->busy)
			continue;
		close(c->fd);
		free_connection(f, c);
	}
	pthread_mutex_unlock(&f->lock);
}

unsigned front_stop(struct front *f, int64_t bound)
{
	atomic_store(&f->draining, true);
	stop_listening(f);
	unsigned cut = drain(f, bound);
	cut_off(f);
	unsigned dropped = drop_waiting(f);
	if (!stop_workers(f))
		return cut ? cut : 1;
	pthread_mutex_lock(&f->lock);
	/* a request may have arrived between the two, and be waiting */
	unsigned left = f->exchanges + dropped;
	f->stopped = true;
	struct exchange_private *own = take_free(f); /* so that no other is the last */
	pthread_mutex_unlock(&f->lock);
	drop_waiting(f);
	close_idle(f);
	give_exchange(f, own, NULL);
	return cut > left ? cut : left;
}
