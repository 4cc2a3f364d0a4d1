/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "helper/job.h"

#include <gelf.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/varint.h"
#include "extract/cabinet.h"
#include "extract/disassemble.h"
#include "extract/dwarf_source.h"
#include "extract/elf_file.h"
#include "extract/extract.h"
#include "extract/ids.h"
#include "extract/inflate.h"
#include "extract/large_stack.h"
#include "extract/pe_file.h"
#include "extract/temp_file.h"
#include "helper/cage.h"
#include "helper/memory.h"

enum {
	OTHERS_MAX = 4,
	INSTRUCTION_MAX = 1024, /* bytes of one in a packet; longer text is cut */
};

struct job {
	const struct job_limits *limits;
	int socket, file;
	int others[OTHERS_MAX]; /* files that were asked for */
	unsigned other_count;
	struct symbfile_writer *writer;
	uint64_t image_base;
	struct view_wanted wanted; /* the slice of a universal file that is asked for */
	struct pe_file pe;
	bool is_pe;
	struct packet packet; /* answers */
	uint8_t code[PACKET_MAX];
	size_t code_len; /* of instructions that were not sent yet: a packet for each would cost more than they do */
};

static enum err gone(struct error *e)
{
	return error_set(e, ERR_IO, "the server is gone");
}

static void doing(void *arg, const char *what)
{
	const struct job *j = arg;
	packet_send(j->socket, PACKET_DOING, what, strlen(what), NULL, 0);
}

/* ---- files ---- */

static enum inflate_method method_of(int file)
{
	uint8_t magic[6] = {0};
	if (pread(file, magic, sizeof magic, 0) != sizeof magic)
		return INFLATE_NONE;
	if (memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		return INFLATE_ZSTD;
	return memcmp(magic,
	               "\xfd"
	               "7zXZ",
	               6) == 0
	               ? INFLATE_XZ
	               : INFLATE_NONE;
}

/* Replaces a compressed file by what is in it. */
static enum err open_file(struct job *j, int *file, struct error *e)
{
	struct stat st;
	uint64_t size;
	int to;
	enum inflate_method method = method_of(*file);
	bool is_cabinet = cabinet_is(*file);
	if (method == INFLATE_NONE && !is_cabinet)
		return ERR_OK;
	doing(j, "inflating the file");
	if (fstat(*file, &st) != 0)
		return error_set(e, ERR_IO, "the file cannot be read");
	enum err err = temp_file_open(&to, e);
	if (err)
		return err;
	const struct inflate_source all = {*file, 0, (uint64_t)st.st_size};
	err = is_cabinet ? cabinet_unpack(*file, j->limits->file_size, to, e)
	                 : inflate_file(method, &all, j->limits->file_size, to, &size, e);
	close(*file);
	*file = to;
	return err;
}

static enum err fetch_file(struct job *j, const uint8_t *want, size_t len, char found[PATH_MAX], struct error *e)
{
	if (j->other_count == OTHERS_MAX)
		return ERR_MISSING;
	doing(j, "waiting for another file");
	if (!packet_send(j->socket, PACKET_WANT, want, len, NULL, 0) || !packet_receive(j->socket, &j->packet))
		return gone(e);
	if (j->packet.fd_count != 1)
		return ERR_MISSING;
	int *file = &j->others[j->other_count++];
	*file = j->packet.fds[0];
	enum err err = open_file(j, file, e);
	snprintf(found, PATH_MAX, "/dev/fd/%d", *file);
	return err;
}

/* For extract_options: the server is asked for the file of a build id. */
static enum err fetch(void *arg, const uint8_t *id, size_t len, const char *name, char found[PATH_MAX], struct error *e)
{
	uint8_t body[1 + BUILD_ID_MAX + ALTERNATE_NAME_MAX];
	size_t name_len = name ? strlen(name) : 0;
	if (len > BUILD_ID_MAX || name_len > ALTERNATE_NAME_MAX)
		return ERR_MISSING;
	body[0] = (uint8_t)len;
	memcpy(body + 1, id, len);
	memcpy(body + 1 + len, name ? name : "", name_len);
	return fetch_file(arg, body, 1 + len + name_len, found, e);
}

static enum err fetch_package(void *arg, char found[PATH_MAX], struct error *e)
{
	return fetch_file(arg, (const uint8_t[]){0}, 1, found, e);
}

/* ---- records ---- */

/* Passed on in pieces, as it is in the file. */
static enum err send_bytes(const struct job *j, enum packet_kind kind, const uint8_t *data, size_t len, struct error *e)
{
	for (size_t n; len > 0; data += n, len -= n) {
		n = len < PACKET_MAX ? len : PACKET_MAX;
		if (!packet_send(j->socket, kind, data, n, NULL, 0))
			return gone(e);
	}
	return ERR_OK;
}

static enum err write_records(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return send_bytes(arg, PACKET_RECORDS, data, len, e);
}

/* A record that no message can hold is left out. */
static enum err unless_too_large(enum err err)
{
	return err == ERR_TOO_LARGE ? ERR_OK : err;
}

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	const struct job *j = arg;
	struct symbfile_range moved = *r;
	if (r->va < j->image_base)
		return ERR_OK;
	moved.va -= j->image_base;
	return unless_too_large(symbfile_write_range(j->writer, &moved, e));
}

static enum err take_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	const struct job *j = arg;
	struct symbfile_pad moved = *p;
	if (p->va < j->image_base)
		return ERR_OK;
	moved.va -= j->image_base;
	return unless_too_large(symbfile_write_pad(j->writer, &moved, e));
}

static enum err send_segments(struct job *j, int file, struct error *e)
{
	struct load_segments segments;
	struct buffer text;
	segments_of_fd(&segments, file, &j->wanted);
	if (!segments.count)
		return j->limits->segments ? error_set(e, ERR_MISSING, "it does not tell where it is loaded") : ERR_OK;
	for (unsigned i = 0; i < segments.count; i++)
		segments.items[i].address -= j->image_base;
	buffer_init(&text, PACKET_MAX);
	load_segments_print(&text, &segments);
	enum err err = text.failed ? no_memory(e) : ERR_OK;
	if (!err && !packet_send(j->socket, PACKET_SEGMENTS, text.data, text.len, NULL, 0))
		err = gone(e);
	buffer_release(&text);
	return err;
}

static void choose_slice(struct job *j, int file)
{
	struct build_id ids[VIEW_SLICES_MAX];
	for (size_t i = 0, n = view_slices(ids, file); i < n; i++)
		if (build_id_answers(&ids[i], &j->limits->question))
			j->wanted.id = ids[i];
}

/* A Windows program may be asked for by its code id, too. */
static enum err send_id(const struct job *j, const struct ids *ids, int file, struct error *e)
{
	struct build_id id = ids->build_id;
	struct pe_file pe;
	if (j->limits->question.whole.len == PE_ID_BYTES && pe_file_is(file) && !pe_file_read(&pe, file, e)) {
		memcpy(id.bytes, pe.id, PE_ID_BYTES);
		id.len = PE_ID_BYTES;
	}
	return packet_send(j->socket, PACKET_ID, id.bytes, id.len, NULL, 0) ? ERR_OK : gone(e);
}

static enum err read_ids(struct job *j, int file, struct error *e)
{
	struct ids ids;
	j->is_pe = j->limits->code && pe_file_is(file);
	if (j->is_pe) {
		enum err err = pe_file_read(&j->pe, file, e);
		if (!err && !packet_send(j->socket, PACKET_ID, j->pe.id, PE_ID_BYTES, NULL, 0))
			err = gone(e);
		return err;
	}
	choose_slice(j, file);
	struct error why;
	enum err err = ids_of_fd(&ids, file, &j->wanted, &why);
	if (err)
		return error_set(e, err == ERR_MISSING ? ERR_CORRUPT : err, "%s", why.text);
	if (ids.is_package && !ids.build_id.len)
		return error_set(e, ERR_MISSING, "a package of split units, without their program");
	j->image_base = ids.image_base;
	err = send_id(j, &ids, file, e);
	return err || j->limits->code ? err : send_segments(j, file, e);
}

static enum err extract(struct job *j, int file, struct error *e)
{
	static struct extract_stats stats; /* large */
	char path[32];
	uint8_t lacks[8];
	struct symbfile_sink sink = {take_range, take_pad, j};
	struct extract_options options = {.slice = j->wanted.id,
	        .debug_dir = "/dev/null",
	        .threads = j->limits->threads,
	        .fetch = fetch,
	        .fetch_package = fetch_package,
	        .fetch_arg = j,
	        .doing = doing,
	        .doing_arg = j};
	snprintf(path, sizeof path, "/dev/fd/%d", file);
	j->writer = symbfile_writer_new(write_records, j);
	if (!j->writer)
		return no_memory(e);
	enum err err = extract_here(path, &options, &sink, &stats, e);
	if (err == ERR_MISSING) /* its advice is for users of symbtool */
		return error_set(e, err, "neither debug data nor symbols describe any code");
	if (!err)
		err = symbfile_writer_finish(j->writer, e);
	put_u64(lacks, stats.lacking);
	if (!err && !packet_send(j->socket, PACKET_LACKS, lacks, sizeof lacks, NULL, 0))
		err = gone(e);
	return err;
}

/* ---- instructions ---- */

static enum err begin_code(void *arg, const char *arch, struct error *e)
{
	const struct job *j = arg;
	return packet_send(j->socket, PACKET_ARCH, arch, strlen(arch), NULL, 0) ? ERR_OK : gone(e);
}

static enum err send_code(struct job *j, struct error *e)
{
	bool ok = j->code_len == 0 || packet_send(j->socket, PACKET_CODE, j->code, j->code_len, NULL, 0);
	j->code_len = 0;
	return ok ? ERR_OK : gone(e);
}

static enum err add_instruction(
        void *arg, uint32_t offset, uint32_t end, uint64_t target, struct str text, struct error *e)
{
	struct job *j = arg;
	size_t room = INSTRUCTION_MAX - PACKET_CODE_HEAD, len = text.len < room ? text.len : room;
	enum err err = j->code_len + PACKET_CODE_HEAD + len > sizeof j->code ? send_code(j, e) : ERR_OK;
	uint8_t *at = j->code + j->code_len;
	put_u16(put_u64(put_u32(put_u32(at, end), offset), target), (uint16_t)len);
	memcpy(at + PACKET_CODE_HEAD, text.data, len);
	j->code_len += PACKET_CODE_HEAD + len;
	return err;
}

static enum err read_instructions(struct job *j, int file, struct error *e)
{
	char path[32];
	struct disassembly d = {.start = j->limits->code_start,
	        .size = j->limits->code_size,
	        .to_function_end = j->limits->to_function_end,
	        .begin = begin_code,
	        .instruction = add_instruction,
	        .arg = j};
	doing(j, "reading its code");
	snprintf(path, sizeof path, "/dev/fd/%d", file);
	enum err err = j->is_pe ? disassemble_pe(&j->pe, &d, e) : disassemble(path, &d, e);
	return err ? err : send_code(j, e);
}

/* ---- a section ---- */

static enum err send_section(struct job *j, const struct elf_file *f, struct error *e)
{
	size_t names;
	if (elf_getshdrstrndx(f->elf, &names) != 0)
		return error_set(e, ERR_MISSING, "it has no sections");
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(f->elf, scn));) {
		GElf_Shdr head;
		const char *name = gelf_getshdr(scn, &head) ? elf_strptr(f->elf, names, head.sh_name) : NULL;
		if (!name || head.sh_type == SHT_NOBITS || strcmp(name, j->limits->section) != 0)
			continue;
		const Elf_Data *bytes = elf_rawdata(scn, NULL);
		if (!bytes)
			return error_set(e, ERR_CORRUPT, "the section %s lies outside the file", name);
		return send_bytes(j, PACKET_SECTION, bytes->d_buf, bytes->d_buf ? bytes->d_size : 0, e);
	}
	return error_set(e, ERR_MISSING, "it has no such section");
}

static enum err read_section(struct job *j, int file, struct error *e)
{
	struct elf_file f;
	char path[32];
	doing(j, "reading a section");
	snprintf(path, sizeof path, "/dev/fd/%d", file);
	enum err err = elf_file_open_as(&f, path, &j->wanted, e);
	if (err)
		return err;
	err = send_section(j, &f, e);
	elf_file_close(&f);
	return err;
}

/* Names of descriptors say nothing to a reader. */
static const char *without_path(const char *text)
{
	int skip = 0;
	if (sscanf(text, "/dev/fd/%*d: %n", &skip) == 0 && skip > 0)
		text += skip;
	return text;
}

static void finish(const struct job *j, enum err err, const struct error *e)
{
	uint8_t body[1 + sizeof e->text];
	const char *text = without_path(e->text);
	size_t len = err ? strlen(text) : 0;
	body[0] = (uint8_t)err;
	memcpy(body + 1, text, len);
	packet_send(j->socket, PACKET_END, body, 1 + len, NULL, 0);
}

static void *work(void *arg)
{
	struct job *j = arg;
	struct error e = {0};
	doing(j, "starting"); /* what fails before is no fault of the file */
	enum err err = open_file(j, &j->file, &e);
	if (!err)
		err = read_ids(j, j->file, &e);
	if (!err && *j->limits->section)
		err = read_section(j, j->file, &e);
	else if (!err && !j->limits->segments)
		err = j->limits->code ? read_instructions(j, j->file, &e) : extract(j, j->file, &e);
	symbfile_writer_free(j->writer);
	finish(j, err, &e);
	return NULL;
}

/* What is written to a file in memory belongs to nobody's resident memory until it is mapped, so the server looks at
 * the file itself. */
static bool show_file(void *arg, int file)
{
	const struct job *j = arg;
	return packet_send(j->socket, PACKET_INFLATES, NULL, 0, &file, 1);
}

void job_run(int socket, int file, const struct job_limits *l)
{
	static struct job j;
	struct error e = {0};
	pthread_t thread;
	j = (struct job){.limits = l, .socket = socket, .file = file};
	enum err err = cage_enter(l, &e);
	temp_file_in_memory(show_file, &j);
	memory_ends_job(socket);
	if (!err && !large_stack_start(&thread, work, &j))
		err = error_set(&e, ERR_UNAVAILABLE, "its reader cannot start a thread");
	if (err)
		finish(&j, err, &e);
	else
		pthread_join(thread, NULL);
	memory_ends_job(-1);
	close(j.file);
	while (j.other_count > 0)
		close(j.others[--j.other_count]);
}
