/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: the helper whole: a file goes in, packets come out. It always ends with one verdict; records are a
 * symbfile that its reader takes, of code that is in order; instructions follow each other. The process's limits are
 * left out. */
#include <config.h>

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/varint.h"
#include "fuzz.h"
#include "helper/cage.h"
#include "helper/job.h"
#include "symbfile/symbfile.h"

/* The first bytes of an input: what is wanted of the file, which follows. */
enum { HEADER = 8, CODE = 1, TO_END = 2, SHARED = 4, THREADS = 2 };

enum err cage_enter(const struct job_limits *l, struct error *e)
{
	(void)l;
	(void)e;
	return ERR_OK;
}

static int make_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
	return fd;
}

/* ---- the server's side ---- */

struct server {
	const uint8_t *file; /* that is given when another one is asked for */
	size_t size;
	int socket;
	bool share, code, begun, ended;
	uint32_t code_end;
	struct symbfile_reader *reader;
	struct packet packet;
};

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg;
	(void)e;
	fuzz_check(r->length > 0 && r->func.data, "a range of nothing");
	for (size_t i = 0; i < r->line_count; i++)
		fuzz_check(r->lines[i].offset < r->length, "a line outside its range");
	return ERR_OK;
}

static enum err take_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg;
	(void)e;
	fuzz_check(p->count > 0, "a return pad without frames");
	return ERR_OK;
}

static void give_file(const struct server *s)
{
	int fd = s->share ? make_file(s->file, s->size) : -1;
	packet_send(s->socket, PACKET_FILE, NULL, 0, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void take_instructions(struct server *s)
{
	const struct packet *p = &s->packet;
	fuzz_check(s->code && s->begun && p->len > 0, "instructions that nobody wants");
	size_t at = 0;
	while (at < p->len) {
		const uint8_t *one = p->data + at;
		fuzz_check(p->len - at > PACKET_CODE_HEAD, "half an instruction");
		fuzz_check(get_u16(one + 16) > 0, "an instruction without text");
		fuzz_check(get_u32(one + 4) == s->code_end && get_u32(one) > s->code_end, "a gap between instructions");
		s->code_end = get_u32(one);
		at += PACKET_CODE_HEAD + get_u16(one + 16);
	}
	fuzz_check(at == p->len, "half an instruction's text");
}

static void take_verdict(struct server *s)
{
	struct error e = {0};
	const struct packet *p = &s->packet;
	fuzz_check(p->len > 0, "a verdict without a code");
	if (p->data[0] == ERR_OK && !s->code)
		fuzz_check(symbfile_reader_finish(s->reader, &e) == ERR_OK, e.text);
	fuzz_check(p->data[0] == ERR_OK || p->len > 1, "an error without a text");
	s->ended = true;
}

static void take_packet(struct server *s)
{
	struct error e = {0};
	const struct packet *p = &s->packet;
	fuzz_check(!s->ended, "a packet behind the verdict");
	switch (p->kind) {
	case PACKET_DOING:
	case PACKET_ID:
		break;
	case PACKET_INFLATES:
		fuzz_check(p->fd_count == 1, "no file in memory");
		packet_close_fds(&s->packet);
		break;
	case PACKET_SEGMENTS:
		fuzz_check(!s->code && p->len > 0, "segments of nothing");
		break;
	case PACKET_LACKS:
		fuzz_check(!s->code && p->len == 8, "a number of no size");
		break;
	case PACKET_WANT:
		give_file(s);
		break;
	case PACKET_RECORDS:
		fuzz_check(!s->code && symbfile_reader_feed(s->reader, p->data, p->len, &e) == ERR_OK, e.text);
		break;
	case PACKET_ARCH:
		fuzz_check(s->code && !s->begun, "a second beginning");
		s->begun = true;
		break;
	case PACKET_CODE:
		take_instructions(s);
		break;
	case PACKET_END:
		take_verdict(s);
		break;
	default:
		fuzz_check(false, "a packet of no kind");
	}
}

static void *serve(void *arg)
{
	struct server *s = arg;
	while (packet_receive(s->socket, &s->packet))
		take_packet(s);
	fuzz_check(s->ended, "no verdict");
	return NULL;
}

/* ---- an input ---- */

static struct job_limits limits_of(const uint8_t *header)
{
	return (struct job_limits){.memory = 1 << 30,
	        .file_size = 4 << 20,
	        .seconds = 20,
	        .threads = THREADS,
	        .code = header[0] & CODE,
	        .to_function_end = header[0] & TO_END,
	        .code_start = (uint64_t)header[1] << 32 | get_u32(header + 2),
	        .code_size = (uint64_t)header[6] << 8 | header[7]};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct server server;
	const struct symbfile_sink sink = {take_range, take_pad, NULL};
	pthread_t thread;
	int ends[2];
	if (size < HEADER)
		return 0;
	const struct job_limits limits = limits_of(data);
	fuzz_check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a socket");
	server = (struct server){.file = data + HEADER,
	        .size = size - HEADER,
	        .socket = ends[0],
	        .share = data[0] & SHARED,
	        .code = limits.code,
	        .reader = symbfile_reader_new(&sink)};
	fuzz_check(server.reader, "a reader");
	fuzz_check(pthread_create(&thread, NULL, serve, &server) == 0, "a thread");
	job_run(ends[1], make_file(data + HEADER, size - HEADER), &limits);
	close(ends[1]);
	pthread_join(thread, NULL);
	close(ends[0]);
	symbfile_reader_free(server.reader);
	return 0;
}
