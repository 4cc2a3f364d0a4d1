/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/extractors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/varint.h"

enum {
	POLL_MS = 200,
	GRACE = 5,        /* seconds more that a job has until it begins */
	START_MS = 30000, /* for the helper's first packet */
	WANTS_MAX = 8,    /* files that a job may ask for */
	FETCHED_MAX = 4,  /* of the largest files, for each that is read */
};

struct extractors {
	int socket; /* sending does not wait: a helper that is stopped holds nobody up */
	struct turnstile places[EXTRACTORS_PLACES];
	unsigned parallel, prefix;
	_Atomic uint64_t fetched; /* bytes of the files that are there */
	pid_t pid;
};

/* ---- the helper ---- */

/* The path of the program that is beside this process's. */
static bool find_beside(char out[PATH_MAX])
{
	static const char name[] = "symbolicated-extract";
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
	out[len > 0 ? len : 0] = 0;
	char *slash = strrchr(out, '/');
	if (!slash || slash + 1 + sizeof name > out + PATH_MAX)
		return false;
	memcpy(slash + 1, name, sizeof name);
	return true;
}

static enum err find_program(char beside[PATH_MAX], const char **path, struct error *e)
{
	if (!*path && find_beside(beside))
		*path = beside;
	if (*path && access(*path, X_OK) == 0)
		return ERR_OK;
	return error_set(e, ERR_CONFIG, "sources of executables need the program %.150s: %s",
	        *path ? *path : "symbolicated-extract", strerror(errno));
}

enum err extractors_check(struct error *e)
{
	char beside[PATH_MAX];
	const char *path = NULL;
	return find_program(beside, &path, e);
}

/* Nothing of the server's is left open, such as the socket that it listens on, but where errors are written to. */
__attribute__((noreturn)) static void be_helper(int socket, const char *path)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* dup2 clears close-on-exec, except of a descriptor that has the number already. */
	if (socket == HELPER_SOCKET)
		fcntl(socket, F_SETFD, 0);
	if (dup2(socket, HELPER_SOCKET) == HELPER_SOCKET && dup2(nothing, STDIN_FILENO) == STDIN_FILENO &&
	        dup2(nothing, STDOUT_FILENO) == STDOUT_FILENO && close_range(HELPER_SOCKET + 1, ~0U, 0) == 0)
		execl(path, path, (char *)NULL);
	_exit(127);
}

static bool readable(int socket, int milliseconds)
{
	struct pollfd p = {.fd = socket, .events = POLLIN};
	return poll(&p, 1, milliseconds) == 1;
}

static enum err check_ready(int socket, const char *path, struct error *e)
{
	struct packet *p = malloc(sizeof *p);
	enum err err = ERR_OK;
	if (!p)
		return no_memory(e);
	if (!readable(socket, START_MS) || !packet_receive(socket, p) || p->kind != PACKET_READY)
		err = error_set(e, ERR_CONFIG, "%.200s does not start: sources of executables need it", path);
	else if (strcmp((const char *)p->data, FULL_VERSION) != 0)
		err = error_set(e, ERR_CONFIG, "%.150s is of version %.30s, not " FULL_VERSION, path, p->data);
	free(p);
	return err;
}

enum err extractors_start(struct extractors **x, const char *path, unsigned parallel, unsigned prefix, struct error *e)
{
	char beside[PATH_MAX];
	int ends[2];
	*x = NULL;
	enum err err = find_program(beside, &path, e);
	if (err)
		return err;
	struct extractors *made = malloc(sizeof *made);
	if (!made)
		return no_memory(e);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		free(made);
		return error_set(e, ERR_CONFIG, "no socket for %.150s: %s", path, strerror(errno));
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	*made = (struct extractors){.socket = ends[0], .parallel = parallel, .prefix = prefix, .pid = fork()};
	turnstile_init(&made->places[PLACE_FETCH], TURNSTILE_FETCHES, EXTRACTORS_FETCH * parallel, 0, false);
	turnstile_init(&made->places[PLACE_READ], TURNSTILE_READS, parallel, 0, false);
	if (made->pid == 0)
		be_helper(ends[1], path);
	close(ends[1]);
	err = made->pid < 0 ? error_set(e, ERR_CONFIG, "no process for %.150s: %s", path, strerror(errno))
	                    : check_ready(made->socket, path, e);
	if (err)
		extractors_stop(made);
	else
		*x = made;
	return err;
}

void extractors_stop(struct extractors *x)
{
	if (!x)
		return;
	close(x->socket);
	if (x->pid > 0)
		waitpid(x->pid, NULL, 0);
	for (unsigned i = 0; i < EXTRACTORS_PLACES; i++)
		turnstile_release(&x->places[i]);
	free(x);
}

bool extractors_enter(struct extractors *x, enum extractors_place place, struct client_key client, struct visit *visit,
        const atomic_bool *cancel)
{
	*visit = (struct visit){.turn.client = client, .prefix = x->prefix, .patient = true, .until = INT64_MAX};
	return turnstile_wait(&x->places[place], visit, cancel);
}

void extractors_leave(struct extractors *x, enum extractors_place place, struct visit *visit)
{
	turnstile_leave(&x->places[place], visit);
}

bool extractors_charge(struct extractors *x, uint64_t bytes, uint64_t largest)
{
	if (atomic_fetch_add(&x->fetched, bytes) + bytes <= FETCHED_MAX * x->parallel * largest)
		return true;
	atomic_fetch_sub(&x->fetched, bytes);
	return false;
}

void extractors_uncharge(struct extractors *x, uint64_t bytes)
{
	atomic_fetch_sub(&x->fetched, bytes);
}

/* ---- a job ---- */

struct reading {
	struct extraction *job;
	int socket;
	struct symbfile_reader *reader;
	struct text_hash *hash;
	struct packet *packet;
	char doing[80];
	struct reader_process process;
	int64_t deadline;
	struct given {
		int file;
		struct stat state;
	} given[1 + WANTS_MAX]; /* all files that it has, the job's first; the others are this reading's own */
	unsigned given_count, wants;
	bool known, begun, ended; /* the build id was right; instructions follow; nothing follows */
};

/* Only a job that has begun can have died of its file. */
static enum err died(const struct reading *s, const char *how, struct error *e)
{
	if (!*s->doing)
		return error_set(e, ERR_UNAVAILABLE, "its reader %s before it began", how);
	return error_set(e, ERR_CORRUPT, "its reader %s while %s", how, s->doing);
}

/* Whether it may go on. */
static enum err check_time(const struct reading *s, struct error *e)
{
	if (s->job->cancel && atomic_load(s->job->cancel))
		return error_set(e, ERR_UNAVAILABLE, "cancelled");
	return clock_now() > s->deadline ? died(s, "took too long", e) : ERR_OK;
}

static enum err hand_over(struct extractors *x, struct reading *s, struct error *e)
{
	char limits[JOB_LIMITS_TEXT];
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return error_set(e, ERR_UNAVAILABLE, "no socket for the helper: %s", strerror(errno));
	s->socket = ends[0];
	s->job->limits.question = *s->job->question;
	job_limits_print(limits, &s->job->limits);
	enum err err = ERR_OK;
	while (!err && !packet_send(x->socket, PACKET_JOB, limits, strlen(limits), (int[]){ends[1], s->job->file}, 2))
		if (errno == EPIPE || errno == ECONNRESET)
			err = error_set(
			        e, ERR_UNAVAILABLE, "the helper symbolicated-extract has ended: restart symbolicated");
		else if (errno != EAGAIN)
			err = error_set(e, ERR_UNAVAILABLE, "no job for the helper: %s", strerror(errno));
		else if (!(err = check_time(s, e)))
			poll(&(struct pollfd){.fd = x->socket, .events = POLLOUT}, 1, POLL_MS);
	close(ends[1]);
	return err;
}

static enum err judge_death(const struct reading *s, uint8_t how, struct error *e)
{
	char text[32];
	if (how == SIGXCPU)
		return died(s, "took too long", e);
	if (how == SIGXFSZ && *s->doing)
		return error_set(e, ERR_CORRUPT, "it grows too large while %s", s->doing);
	snprintf(text, sizeof text, how < 128 ? "died of signal %d" : "ended with status %d", how & 127);
	return died(s, text, e);
}

/* The helper may have been told anything by the file, so its errors are checked like data. */
static enum err judge_end(struct reading *s, struct error *e)
{
	const struct packet *p = s->packet;
	enum err err = p->len > 0 ? (enum err)p->data[0] : ERR_CORRUPT;
	const char *text = p->len > 1 ? (const char *)p->data + 1 : "its reader does not say why it failed";
	s->ended = true;
	if (!err && !s->known)
		return error_set(e, ERR_CORRUPT, "its reader sent nothing");
	if (!err)
		return s->job->limits.code || s->job->limits.segments || *s->job->limits.section
		               ? ERR_OK
		               : symbfile_reader_finish(s->reader, e);
	if (err == ERR_NO_MEMORY)
		return died(s, "needed too much memory", e);
	/* its cage or thread; once it has seen the file, it has no such excuse */
	bool unavailable = err == ERR_UNAVAILABLE && !*s->doing;
	return error_set(e, err == ERR_MISSING || unavailable ? err : ERR_CORRUPT, "%.200s", text);
}

static enum err check_id(struct reading *s, struct error *e)
{
	struct build_id id = {.len = s->packet->len};
	char hex[BUILD_ID_HEX + 1];
	if (id.len > BUILD_ID_MAX)
		return error_set(e, ERR_CORRUPT, "its build id is too long");
	memcpy(id.bytes, s->packet->data, id.len);
	build_id_hex(hex, id.bytes, id.len);
	if (!id.len)
		return error_set(e, ERR_CORRUPT, "the file has no build id");
	if (!build_id_answers(&id, s->job->question))
		return error_set(e, ERR_CORRUPT, "another file: its build id is %s", hex);
	s->known = s->job->known = true;
	return ERR_OK;
}

static void note_file(struct reading *s, int file)
{
	struct given *g = &s->given[s->given_count++];
	*g = (struct given){.file = file};
	fstat(file, &g->state);
}

static enum err give_file(struct reading *s, struct error *e)
{
	const struct packet *p = s->packet;
	struct build_id id = {.len = p->len > 0 ? p->data[0] : 0};
	int file = -1;
	if (p->len < 1 + id.len || id.len > BUILD_ID_MAX || ++s->wants > WANTS_MAX)
		return error_set(e, ERR_CORRUPT, "its reader asks for too many files");
	memcpy(id.bytes, p->data + 1, id.len);
	const struct str name = {(const char *)p->data + 1 + id.len, p->len - 1 - id.len};
	int64_t start = clock_now();
	if (s->job->provide)
		file = s->job->provide(s->job->provide_arg, &id, name);
	if (file == PROVIDE_FAILED)
		return error_set(e, ERR_UNAVAILABLE, "a further file that it needs cannot be read now; try again");
	s->deadline += clock_now() - start; /* a slow source is no fault of the file */
	bool ok = packet_send(s->socket, PACKET_FILE, NULL, 0, &file, file >= 0);
	if (file >= 0)
		note_file(s, file);
	/* If it died meanwhile, the next packet says so. */
	return ok || errno == EPIPE || errno == ECONNRESET ? ERR_OK
	                                                   : error_set(e, ERR_UNAVAILABLE, "%s", strerror(errno));
}

/* Made printable ASCII: for log lines and replies. */
static struct str printable(uint8_t *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < 0x20 || text[i] > 0x7e)
			text[i] = '?';
	return (struct str){(const char *)text, len};
}

static enum err take_instructions(struct reading *s, struct error *e)
{
	struct packet *p = s->packet;
	const struct code_sink *sink = &s->job->code;
	size_t len;
	for (size_t at = 0; at < p->len; at += PACKET_CODE_HEAD + len) {
		uint8_t *one = p->data + at;
		if (p->len - at < PACKET_CODE_HEAD || p->len - at - PACKET_CODE_HEAD < (len = get_u16(one + 16)))
			return error_set(e, ERR_CORRUPT, "its reader sent a malformed instruction");
		s->job->code_size = get_u32(one);
		struct str text = printable(one + PACKET_CODE_HEAD, len);
		enum err err = sink->instruction(sink->arg, get_u32(one + 4), get_u64(one + 8), text, e);
		if (err)
			return err;
	}
	return ERR_OK;
}

static enum err take_code(struct reading *s, struct error *e)
{
	struct packet *p = s->packet;
	const struct code_sink *sink = &s->job->code;
	if (!s->known || !s->job->limits.code || (p->kind == PACKET_CODE && !s->begun))
		return error_set(e, ERR_CORRUPT, "its reader sent instructions that were not asked for");
	if (p->kind == PACKET_CODE)
		return take_instructions(s, e);
	if (s->begun)
		return error_set(e, ERR_CORRUPT, "its reader began twice");
	s->begun = s->job->sent = true;
	return sink->begin(sink->arg, printable(p->data, p->len), e);
}

/* It is the first packet, before its reader has seen the file, so it can be believed. */
static enum err note_process(struct reading *s, struct error *e)
{
	struct packet *p = s->packet;
	if (p->fd_count != 2 || s->process.handle >= 0 || *s->doing)
		return error_set(e, ERR_CORRUPT, "its reader sent an unknown message");
	s->process.handle = p->fds[0];
	s->process.status = p->fds[1];
	p->fd_count = 0; /* they are kept */
	s->deadline = clock_now() + s->job->limits.seconds * SECOND;
	return ERR_OK;
}

/* It may say so of what it is not: then less is charged, and the rest is mapped or lost to it. */
static enum err note_inflated(struct reading *s, struct error *e)
{
	struct packet *p = s->packet;
	if (p->fd_count != 1)
		return error_set(e, ERR_CORRUPT, "its reader sent an unknown message");
	p->fd_count = 0; /* it is kept */
	if (!reader_process_add_file(&s->process, p->fds[0]))
		return error_set(e, ERR_CORRUPT, "its reader inflates too many files");
	return ERR_OK;
}

static enum err take_segments(struct reading *s, struct error *e)
{
	struct load_segments segments;
	if (!load_segments_parse(&segments, printable(s->packet->data, s->packet->len)))
		return error_set(e, ERR_CORRUPT, "its reader sent malformed load segments");
	s->job->loaded = file_map_of(&segments);
	return ERR_OK;
}

static enum err take_packet(struct reading *s, struct error *e)
{
	struct packet *p = s->packet;
	switch (p->kind) {
	case PACKET_PROCESS:
		return note_process(s, e);
	case PACKET_INFLATES:
		return note_inflated(s, e);
	case PACKET_DOING:
		snprintf(s->doing, sizeof s->doing, "%.79s", printable(p->data, p->len).data);
		return ERR_OK;
	case PACKET_ID:
		return check_id(s, e);
	case PACKET_SEGMENTS:
		return take_segments(s, e);
	case PACKET_WANT:
		return give_file(s, e);
	case PACKET_ARCH:
	case PACKET_CODE:
		return take_code(s, e);
	case PACKET_RECORDS:
		if (!s->known || s->job->limits.code || s->job->limits.segments || *s->job->limits.section)
			return error_set(e, ERR_CORRUPT, "its reader sent records before a build id");
		text_hash_add(s->hash, p->data, p->len);
		return symbfile_reader_feed(s->reader, p->data, p->len, e);
	case PACKET_SECTION:
		if (!s->known || !*s->job->limits.section)
			return error_set(e, ERR_CORRUPT, "its reader sent a section that was not asked for");
		s->job->sent = true;
		return s->job->section.add(s->job->section.arg, p->data, p->len, e);
	case PACKET_LACKS:
		if (p->len != 8)
			return error_set(e, ERR_CORRUPT, "its reader sent an unknown message");
		s->job->lacking = get_u64(p->data);
		return ERR_OK;
	case PACKET_END:
		return judge_end(s, e);
	case PACKET_DIED:
		return judge_death(s, p->len == 1 ? p->data[0] : 0, e);
	default:
		return error_set(e, ERR_CORRUPT, "its reader sent an unknown message");
	}
}

static enum err run_reading(struct reading *s, struct error *e)
{
	enum err err = ERR_OK;
	while (!err && !s->ended) {
		if ((err = check_time(s, e)))
			return err;
		if (!reader_process_charge(&s->process, s->job->take, s->job->take_arg))
			return error_set(e, ERR_TOO_LARGE, "there is no memory for its reader");
		if (!readable(s->socket, POLL_MS))
			continue;
		if (!packet_receive(s->socket, s->packet))
			return error_set(e, ERR_UNAVAILABLE,
			        "the helper symbolicated-extract was killed, or its message could not be "
			        "taken; try again");
		err = take_packet(s, e);
		packet_close_fds(s->packet);
	}
	return err;
}

/* ---- whose fault it is ---- */

static bool has_changed(const struct given *g)
{
	struct stat now;
	return fstat(g->file, &now) != 0 || now.st_size != g->state.st_size ||
	       now.st_mtim.tv_sec != g->state.st_mtim.tv_sec || now.st_mtim.tv_nsec != g->state.st_mtim.tv_nsec;
}

static enum err read_whole(const struct given *g, const atomic_bool *cancel, struct error *e)
{
	char block[32 << 10];
	off_t at = 0;
	ssize_t n;
	while ((n = pread(g->file, block, sizeof block, at)) > 0 && !(cancel && atomic_load(cancel)))
		at += n;
	return n < 0 ? error_set(e, ERR_UNAVAILABLE, "the file cannot be read: %s", strerror(errno)) : ERR_OK;
}

/* Whether this host has what a reader may take: its memory, and a descriptor for what it inflates. */
static enum err check_host(const struct job_limits *l, struct error *e)
{
	int file = memfd_create("symbolicated", MFD_CLOEXEC);
	if (file < 0)
		return error_set(e, ERR_UNAVAILABLE, "no descriptors for its reader: %s", strerror(errno));
	close(file);
	void *memory = mmap(NULL, l->memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return error_set(e, ERR_UNAVAILABLE, "no memory for its reader: %s", strerror(errno));
	munmap(memory, l->memory);
	return ERR_OK;
}

/* A disk that fails looks to the reader like a malformed or poor file, or kills it (SIGBUS); a host without memory like
 * a malformed file, or one that needs too much. What the reader says proves nothing, since the file may have taken it
 * over; so both are tried here. Nor does it prove anything of a file that somebody writes. A reader that was killed
 * (SIGKILL) counts as the file's fault, since it may have taken the memory that others lacked. */
static enum err judge(const struct reading *s, enum err err, struct error *e)
{
	for (unsigned i = 0; i < s->given_count; i++)
		if (err != ERR_UNAVAILABLE && has_changed(&s->given[i]))
			return error_set(e, ERR_UNAVAILABLE, "the file changed while it was read");
	if (err != ERR_CORRUPT && err != ERR_MISSING)
		return err;
	enum err own = check_host(&s->job->limits, e);
	for (unsigned i = 0; i < s->given_count && !own; i++)
		own = read_whole(&s->given[i], s->job->cancel, e);
	return own ? own : err;
}

enum err extract_file(struct extractors *x, struct extraction *job, struct error *e)
{
	struct reading s = {.job = job,
	        .socket = -1,
	        .reader = symbfile_reader_new(&job->sink),
	        .hash = text_hash_new(),
	        .packet = malloc(sizeof *s.packet),
	        .process = READER_PROCESS_NONE,
	        .deadline = clock_now() + (job->limits.seconds + GRACE) * SECOND};
	note_file(&s, job->file);
	enum err err = s.reader && s.hash && s.packet ? hand_over(x, &s, e) : no_memory(e);
	if (!err)
		err = run_reading(&s, e);
	if (s.socket >= 0)
		close(s.socket);
	reader_process_end(&s.process);
	err = judge(&s, err, e);
	while (s.given_count > 1)
		close(s.given[--s.given_count].file);
	if (!err)
		job->hash = text_hash_value(s.hash);
	symbfile_reader_free(s.reader);
	text_hash_free(s.hash);
	free(s.packet);
	return err;
}
