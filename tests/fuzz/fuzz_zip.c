/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a ZIP of symbol files as it comes to POST /upload/. Whatever is read a first time is read a second time
 * alike; a symbol file has a name and id that a bucket can hold; all together is not much larger than the ZIP may
 * unpack to. */
#include <config.h>

#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "fuzz.h"
#include "objects/bucket.h"
#include "symfiles/check.h"
#include "symfiles/zip.h"

enum { TEXT_MAX = 1 << 20 };

struct seen {
	struct symfile_check *check;
	struct text_hash *hash;
	uint64_t bytes, files;
};

static enum err begin(void *arg, struct str name, struct str id, struct error *e)
{
	struct seen *s = arg;
	fuzz_check(!s->check, "a file within a file");
	fuzz_check(bucket_can_hold(name, id), "a name that no bucket can hold");
	text_hash_add(s->hash, (const uint8_t *)name.data, name.len);
	text_hash_add(s->hash, (const uint8_t *)id.data, id.len);
	s->check = symfile_check_new(id, TEXT_MAX);
	return s->check ? ERR_OK : no_memory(e);
}

/* An executable or debug file, which is not looked into here. */
static enum err begin_file(void *arg, struct str name, struct str id, bool packed, struct error *e)
{
	struct seen *s = arg;
	const uint8_t is_packed = packed;
	(void)e;
	fuzz_check(!s->check && name.len > 0 && id.len > 0, "a file without a name");
	text_hash_add(s->hash, (const uint8_t *)name.data, name.len);
	text_hash_add(s->hash, &is_packed, 1);
	return ERR_OK;
}

static enum err add(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct seen *s = arg;
	uint8_t *copy = fuzz_copy(data, len);
	s->bytes += len;
	text_hash_add(s->hash, copy, len);
	enum err err = s->check ? symfile_check_add(s->check, copy, len, e) : ERR_OK;
	free(copy);
	return err;
}

static enum err end(void *arg, struct error *e)
{
	struct seen *s = arg;
	enum err err = s->check ? symfile_check_end(s->check, e) : ERR_OK;
	symfile_check_free(s->check);
	s->check = NULL;
	s->files++;
	return err;
}

static enum err ignored(void *arg, struct str path, struct error *e)
{
	(void)arg;
	(void)e;
	fuzz_check(path.len > 0 && path.data[0] != '/', "a path that leads elsewhere");
	return ERR_OK;
}

static enum err read_once(int fd, struct seen *s, struct error *e)
{
	*s = (struct seen){.hash = text_hash_new()};
	const struct zip_visitor visitor = {
	        .begin = begin, .add = add, .end = end, .begin_file = begin_file, .ignored = ignored, .arg = s};
	enum err err = zip_read(fd, &visitor, e);
	fuzz_check(!err || (err == e->code && *e->text), "an error without a text");
	symfile_check_free(s->check);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen first, second;
	struct error e, e_again;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no file");
	enum err err = read_once(fd, &first, &e), again = read_once(fd, &second, &e_again);
	fuzz_check(err == again && (!err || strcmp(e.text, e_again.text) == 0), "another result the second time");
	fuzz_check(first.bytes == second.bytes && first.files == second.files &&
	                   text_hash_value(first.hash) == text_hash_value(second.hash),
	        "other files the second time");
	fuzz_check(first.bytes <= size * ZIP_RATIO_MAX + 2 * ZIP_SPARE, "more than a ZIP may unpack to");
	text_hash_free(first.hash);
	text_hash_free(second.hash);
	close(fd);
	return 0;
}
