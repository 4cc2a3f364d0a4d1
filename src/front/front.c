/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

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
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/permits.h"
#include "front/exchange_private.h"

enum {
	WORKERS_A_CORE = 3,
	MORE_THAN_CORES = 1, /* workers that are awake */
	ACCEPTS_MAX = 64,    /* in a row, before another event is handled */
	FREE_MAX = 256,      /* exchanges kept for reuse */
	OUT_OF_DESCRIPTORS_MS = 50,
};

/* How long threads may take to end when all connections are cut off. */
static const int64_t end_bound = 5 * SECOND;

/* While draining, idle connections are waited for this long. nginx closes them after the keepalive_timeout of its
 * upstream; one that we close while nginx still holds it would cost it a request. */
static const int64_t idle_bound = 6 * SECOND;

struct connection {
	int fd;
	bool busy; /* held by a worker or an exchange; otherwise by epoll */
	LIST_ENTRY(connection) all;
};

struct front {
	void (*handle)(struct exchange *);
	_Atomic(const struct config *) config;
	int64_t io_timeout;
	int epoll;
	int resumable; /* eventfd, a semaphore: one for each exchange in the queue */
	int stop;      /* eventfd, never read: it wakes all workers */
	struct permits awake;
	pthread_t *workers;
	unsigned worker_count;

	pthread_mutex_t accepting; /* whose turn it is to use the listener */
	int listener;              /* -1: no longer */

	atomic_bool draining;
	atomic_uint in_hand;  /* requests between their arrival and their release */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t quiet; /* front_stop may have got what it waits for */
	unsigned running;     /* workers that have not ended */
	LIST_HEAD(, connection) connections;
	unsigned connection_count;
	STAILQ_HEAD(, exchange_private) queue; /* resumed, oldest first */
	STAILQ_HEAD(, exchange_private) free;
	unsigned free_count;
	unsigned exchanges; /* not on the free list */
	bool stopped;       /* no worker is left: exchanges that are resumed now are dropped */
	bool abandoned;     /* the last exchange frees the front */
};

/* ---- connections ---- */

/* Takes ownership of the descriptor. NULL if out of memory. */
static struct connection *connection_new(struct front *f, int fd)
{
	struct connection *c = malloc(sizeof *c);
	if (!c)
		return NULL;
	pthread_mutex_lock(&f->lock);
	*c = (struct connection){.fd = fd, .busy = true};
	LIST_INSERT_HEAD(&f->connections, c, all);
	f->connection_count++;
	pthread_mutex_unlock(&f->lock);
	metric_add(M_CONNECTIONS, 1);
	return c;
}

/* With f->lock held. */
static void unlink_connection(struct front *f, struct connection *c)
{
	LIST_REMOVE(c, all);
	if (--f->connection_count == 0)
		pthread_cond_signal(&f->quiet);
}

/* The descriptor must be closed already. */
static void connection_forget(struct front *f, struct connection *c)
{
	pthread_mutex_lock(&f->lock);
	unlink_connection(f, c);
	pthread_mutex_unlock(&f->lock);
	metric_add(M_CONNECTIONS, -1);
	free(c);
}

/* Hands it to epoll, for one event. Afterwards it belongs to the worker that gets the event, which takes the lock
 * first: that makes visible to it what was done here. */
static void connection_wait(struct front *f, struct connection *c, int op)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = c};
	pthread_mutex_lock(&f->lock);
	bool given = epoll_ctl(f->epoll, op, c->fd, &event) == 0;
	c->busy = !given;
	pthread_mutex_unlock(&f->lock);
	if (given)
		return;
	close(c->fd);
	connection_forget(f, c);
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

/* With f->accepting held. Returns 0 when the backlog is empty or the turn is over, else errno. */
static int accept_some(struct front *f)
{
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept_one(f->listener);
		if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0)
			return errno;
		set_timeouts(fd, f->io_timeout);
		struct connection *c = connection_new(f, fd);
		if (c)
			connection_wait(f, c, EPOLL_CTL_ADD);
		else
			close(fd);
	}
	return 0;
}

static bool arm_listener(struct front *f, int op)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &f->listener};
	return epoll_ctl(f->epoll, op, f->listener, &event) == 0;
}

/* One worker at a time. Once armed again, the listener is readable at once if connections still wait. */
static void handle_listener(struct front *f)
{
	int error = 0;
	pthread_mutex_lock(&f->accepting);
	if (f->listener >= 0)
		error = accept_some(f);
	pthread_mutex_unlock(&f->accepting);
	if (error)
		rest_after(error);
	pthread_mutex_lock(&f->accepting);
	if (f->listener >= 0)
		arm_listener(f, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&f->accepting);
}

/* ---- exchanges ---- */

/* The exchange for what arrived on c; NULL if out of memory. */
static struct exchange_private *take_exchange(struct front *f, struct connection *c)
{
	pthread_mutex_lock(&f->lock);
	c->busy = true;
	f->exchanges++;
	struct exchange_private *p = STAILQ_FIRST(&f->free);
	if (p) {
		STAILQ_REMOVE_HEAD(&f->free, next);
		f->free_count--;
	}
	pthread_mutex_unlock(&f->lock);
	if (!p)
		p = exchange_new();
	if (p)
		p->front = f;
	return p;
}

static void front_free(struct front *f);

/* p may be NULL: take_exchange could not make one. */
static void give_exchange(struct front *f, struct exchange_private *p)
{
	pthread_mutex_lock(&f->lock);
	bool keep = p && f->free_count < FREE_MAX;
	if (keep) {
		STAILQ_INSERT_HEAD(&f->free, p, next);
		f->free_count++;
	}
	bool last = --f->exchanges == 0 && f->abandoned;
	pthread_mutex_unlock(&f->lock);
	if (p && !keep)
		exchange_free(p);
	if (last)
		front_free(f);
}

static void count_request(struct front *f, int change)
{
	metric_add(M_REQUESTS_IN_FLIGHT, change);
	if (change > 0)
		atomic_fetch_add(&f->in_hand, 1);
	/* front_stop sets `draining` before it reads the count, so one of the two sees the other. */
	else if (atomic_fetch_sub(&f->in_hand, 1) == 1 && atomic_load(&f->draining)) {
		pthread_mutex_lock(&f->lock);
		pthread_cond_signal(&f->quiet);
		pthread_mutex_unlock(&f->lock);
	}
}

bool front_keeps(const struct front *f)
{
	return !atomic_load(&f->draining);
}

void front_release(struct exchange_private *p)
{
	struct front *f = p->front;
	struct connection *c = p->connection;
	if (exchange_end(p) < 0)
		connection_forget(f, c);
	else
		connection_wait(f, c, EPOLL_CTL_MOD);
	count_request(f, -1);
	give_exchange(f, p);
}

static void drop_exchange(struct exchange_private *p)
{
	struct front *f = p->front;
	struct connection *c = p->connection;
	if (p->x.dropped)
		p->x.dropped(&p->x);
	exchange_drop(p);
	connection_forget(f, c);
	count_request(f, -1);
	give_exchange(f, p);
}

/* Something arrived on a connection: mostly a request. Its handler answers or parks it; either way it is no longer ours
 * afterwards. */
static void handle_connection(struct front *f, struct connection *c)
{
	struct exchange_private *p = take_exchange(f, c);
	count_request(f, 1);
	if (!p)
		close(c->fd);
	if (p && exchange_begin(p, atomic_load(&f->config), c->fd)) {
		p->connection = c;
		f->handle(&p->x);
		return;
	}
	connection_forget(f, c);
	count_request(f, -1);
	give_exchange(f, p);
}

void exchange_resume(struct exchange *x, void (*fn)(struct exchange *x))
{
	struct exchange_private *p = exchange_private(x);
	struct front *f = p->front;
	uint64_t one = 1;
	p->resumed = fn;
	pthread_mutex_lock(&f->lock);
	bool dropped = f->stopped;
	if (!dropped) {
		STAILQ_INSERT_TAIL(&f->queue, p, next);
		/* Under the lock, so that the front still exists. This never blocks: the count cannot come near 2^64.
		 */
		if (write(f->resumable, &one, sizeof one) < 0)
			log_event(LOG_LEVEL_ERROR, "resume", "%s", strerror(errno));
	}
	pthread_mutex_unlock(&f->lock);
	if (dropped)
		drop_exchange(p);
}

static struct exchange_private *next_resumed(struct front *f)
{
	pthread_mutex_lock(&f->lock);
	struct exchange_private *p = STAILQ_FIRST(&f->queue);
	if (p)
		STAILQ_REMOVE_HEAD(&f->queue, next);
	pthread_mutex_unlock(&f->lock);
	return p;
}

static void handle_resumed(struct front *f)
{
	uint64_t one;
	/* Another worker may have been faster. */
	if (read(f->resumable, &one, sizeof one) < 0)
		return;
	struct exchange_private *p = next_resumed(f);
	if (p)
		p->resumed(&p->x);
}

/* ---- workers ---- */

static void handle_events(struct front *f)
{
	while (permit_take(&f->awake)) {
		struct epoll_event event;
		int n = epoll_wait(f->epoll, &event, 1, -1);
		if (n < 0 && errno != EINTR) {
			log_event(LOG_LEVEL_ERROR, "epoll", "%s", strerror(errno));
			return;
		}
		if (n <= 0)
			continue;
		if (event.data.ptr == &f->stop)
			return;
		if (event.data.ptr == &f->listener)
			handle_listener(f);
		else if (event.data.ptr == &f->resumable)
			handle_resumed(f);
		else
			handle_connection(f, event.data.ptr);
	}
}

static void *worker_main(void *arg)
{
	struct front *f = arg;
	handle_events(f);
	pthread_mutex_lock(&f->lock);
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
		pthread_mutex_lock(&f->lock);
		int failed = pthread_create(&f->workers[f->worker_count], NULL, worker_main, f);
		if (!failed)
			f->running++;
		pthread_mutex_unlock(&f->lock);
		if (failed)
			return error_set(e, ERR_IO, "thread: %s", strerror(failed));
		snprintf(name, sizeof name, "worker-%u", f->worker_count);
		pthread_setname_np(f->workers[f->worker_count], name);
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
	permits_end(&f->awake);
	pthread_mutex_lock(&f->lock);
	while (f->running && clock_wait(&f->quiet, &f->lock, until))
		;
	bool ended = !f->running;
	pthread_mutex_unlock(&f->lock);
	for (unsigned i = 0; i < f->worker_count; i++)
		if (ended)
			pthread_join(f->workers[i], NULL);
		else
			pthread_detach(f->workers[i]);
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
	close_open(f->listener);
	close_open(f->resumable);
	close_open(f->stop);
	close_open(f->epoll);
	permits_destroy(&f->awake);
	pthread_cond_destroy(&f->quiet);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->accepting);
	free(f->workers);
	free(f);
}

/* A level-triggered event. */
static bool watch(struct front *f, int fd, void *tag)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};
	return fd >= 0 && epoll_ctl(f->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool open_descriptors(struct front *f)
{
	/* See accept_one. */
	set_timeouts(f->listener, 100 * MS);
	f->epoll = epoll_create1(EPOLL_CLOEXEC);
	f->resumable = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	f->stop = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return f->epoll >= 0 && watch(f, f->resumable, &f->resumable) && watch(f, f->stop, &f->stop);
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
	STAILQ_INIT(&f->queue);
	STAILQ_INIT(&f->free);
	atomic_init(&f->config, c);
	permits_init(&f->awake, cores_count() + MORE_THAN_CORES);
	pthread_mutex_init(&f->accepting, NULL);
	pthread_mutex_init(&f->lock, NULL);
	clock_condition_init(&f->quiet);
	enum err err = ERR_OK;
	if (!open_descriptors(f) || !fcgi_library_init())
		err = error_set(e, ERR_IO, "the front: %s", strerror(errno));
	if (!err)
		err = start_workers(f, c->workers ? (unsigned)c->workers : WORKERS_A_CORE * cores_count(), e);
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
	accept_some(f);
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
	while (f->connection_count && clock_wait(&f->quiet, &f->lock, idle_end))
		;
	while (atomic_load(&f->in_hand) && clock_wait(&f->quiet, &f->lock, end))
		;
	pthread_mutex_unlock(&f->lock);
	return atomic_load(&f->in_hand);
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
	LIST_HEAD(, connection) idle = LIST_HEAD_INITIALIZER(idle);
	struct connection *c, *next;
	pthread_mutex_lock(&f->lock);
	for (c = LIST_FIRST(&f->connections); c; c = next) {
		next = LIST_NEXT(c, all);
		if (c->busy)
			continue;
		unlink_connection(f, c);
		LIST_INSERT_HEAD(&idle, c, all);
	}
	pthread_mutex_unlock(&f->lock);
	while ((c = LIST_FIRST(&idle))) {
		LIST_REMOVE(c, all);
		close(c->fd);
		metric_add(M_CONNECTIONS, -1);
		free(c);
	}
}

unsigned front_stop(struct front *f, int64_t bound)
{
	struct exchange_private *p;
	atomic_store(&f->draining, true);
	stop_listening(f);
	unsigned cut = drain(f, bound);
	cut_off(f);
	if (!stop_workers(f))
		return cut ? cut : 1;
	/* a request may have arrived between the two, and be waiting */
	unsigned left = atomic_load(&f->in_hand);
	pthread_mutex_lock(&f->lock);
	f->stopped = true;
	pthread_mutex_unlock(&f->lock);
	while ((p = next_resumed(f)))
		drop_exchange(p);
	close_idle(f);
	pthread_mutex_lock(&f->lock);
	f->abandoned = true;
	bool last = f->exchanges == 0;
	pthread_mutex_unlock(&f->lock);
	if (last)
		front_free(f);
	return cut > left ? cut : left;
}
