/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/source_code.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hex.h"
#include "objects/percent.h"
#include "objects/source_search.h"

enum { REVISION_MIN = 7, REVISION_MAX = 64, DIGEST_MIN = 32, DIGEST_MAX = 128 }; /* hex digits */

static const char debuginfod[] = "debuginfod";

struct source_code {
	const struct config *config;
	const struct bucket_sources *buckets;
	struct bucket_sources *hosts; /* one for each URL of the setting */
};

/* ---- the setting ---- */

enum field { REPOSITORY, PATH, REVISION, FIELDS };
static const char *const fields[FIELDS] = {"{repository}", "{path}", "{revision}"};

/* Which field of a URL begins here; FIELDS: none. */
static enum field field_at(const char *at)
{
	unsigned i = 0;
	while (i < FIELDS && strncmp(at, fields[i], strlen(fields[i])) != 0)
		i++;
	return (enum field)i;
}

static bool is_url(const char *value)
{
	return strncasecmp(value, "http://", 7) == 0 || strncasecmp(value, "https://", 8) == 0;
}

/* What stands behind its host. */
static const char *below_host(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	return host + strcspn(host, "/");
}

/* Whether it is of generated files, which are in no repository. */
static bool is_generated(const char *item)
{
	return strncmp(item, "s3:", 3) == 0;
}

/* Each field once, behind the host. */
static bool fields_are_right(const char *url, bool generated)
{
	unsigned count[FIELDS] = {0};
	const char *at = below_host(url);
	if (strcspn(url, "{}@?#") < (size_t)(at - url) || !*at)
		return false;
	while (*at) {
		enum field f = field_at(at);
		if (f == FIELDS && (*at <= ' ' || *at > '~' || strchr("{}#", *at)))
			return false;
		if (f < FIELDS)
			count[f]++;
		at += f < FIELDS ? strlen(fields[f]) : 1;
	}
	return count[PATH] == 1 && count[REPOSITORY] == !generated && count[REVISION] == !generated;
}

/* The host of a URL of the setting as a source; the caller frees it. NULL if out of memory. */
static char *host_of(const char *url)
{
	return text_printf("%.*s/", (int)(below_host(url) - url), url);
}

static enum err check_url(const struct config *c, const char *url, bool generated, struct error *e)
{
	if (!fields_are_right(url, generated))
		return error_set(e, ERR_CONFIG,
		        "source_code: a URL has {repository}, {path} and {revision}, of s3: only {path}, once each, "
		        "behind the host, and no user, password or fragment");
	char *host = host_of(url);
	enum err err = host ? bucket_check_url(c, host, e) : no_memory(e);
	free(host);
	return err;
}

enum err source_code_check(const struct config *c, struct error *e)
{
	enum err err = ERR_OK;
	for (unsigned i = 0; i < c->source_code.count && !err; i++) {
		const char *item = c->source_code.items[i], *equals = strchr(item, '=');
		if (equals && is_url(equals + 1))
			err = check_url(c, equals + 1, is_generated(item), e);
		else if (strcmp(item, debuginfod) != 0 && !(equals && equals[1] == '/'))
			err = error_set(e, ERR_CONFIG,
			        "source_code: \"%.100s\" is neither debuginfod nor PREFIX=/directory nor "
			        "PREFIX=https://HOST/...",
			        item);
	}
	return err;
}

static bool add_host(struct config_list *hosts, const char *item)
{
	const char *equals = strchr(item, '=');
	if (!equals || !is_url(equals + 1))
		return true;
	char *host = host_of(equals + 1);
	if (host)
		hosts->items[hosts->count++] = host;
	return host;
}

void source_code_free(struct source_code *s)
{
	if (!s)
		return;
	bucket_sources_free(s->hosts);
	free(s);
}

struct source_code *source_code_new(const struct config *c, const struct bucket_sources *buckets, struct error *e)
{
	struct source_code *s = calloc(1, sizeof *s);
	struct config_list hosts = {.count = 0};
	bool good = s != NULL;
	no_memory(e);
	for (unsigned i = 0; i < c->source_code.count && good; i++)
		good = add_host(&hosts, c->source_code.items[i]);
	if (good) {
		*s = (struct source_code){c, buckets, bucket_sources_of(c, &hosts, e)};
		good = s->hosts;
	}
	for (unsigned i = 0; i < hosts.count; i++)
		free(hosts.items[i]);
	if (good)
		return s;
	source_code_free(s);
	return NULL;
}

/* ---- paths ---- */

/* Drops the last component; false: there is none. */
static bool go_up(char *path, size_t *len, size_t root)
{
	if (*len <= root)
		return false;
	const char *slash = memrchr(path + root, '/', *len - root);
	*len = slash ? (size_t)(slash - path) : root;
	return true;
}

static bool add_component(char *path, size_t *len, size_t root, struct str component)
{
	if (component.len == 0 || str_equal(component, str_from(".")))
		return true;
	if (str_equal(component, str_from("..")))
		return go_up(path, len, root);
	if (*len > root)
		path[(*len)++] = '/';
	memcpy(path + *len, component.data, component.len);
	*len += component.len;
	return true;
}

/* Without "." and "..", which debug data are full of: "/a/./b/../c" is "/a/c". False: it is none, or leads above its
 * root. */
static bool canonical(char path[SOURCE_PATH_MAX + 1], struct str file)
{
	size_t root = file.len > 0 && file.data[0] == '/' ? 1 : 0, len = root;
	if (file.len > SOURCE_PATH_MAX)
		return false;
	for (size_t i = 0; i < file.len; i++)
		if ((unsigned char)file.data[i] < 0x20 || file.data[i] == 0x7f)
			return false;
	path[0] = '/';
	while (file.len > 0)
		if (!add_component(path, &len, root, str_cut(&file, '/')))
			return false;
	path[len] = 0;
	return len > root;
}

/* What of the path is below the prefix; NULL: it is not. */
static const char *below(const char *path, struct str prefix)
{
	if (strncmp(path, prefix.data, prefix.len) != 0)
		return NULL;
	const char *rest = path + prefix.len;
	if (prefix.len > 0 && prefix.data[prefix.len - 1] != '/') {
		if (*rest != '/')
			return NULL;
		rest++;
	}
	return *rest && *rest != '/' ? rest : NULL;
}

/* ---- what is source code ---- */

/* Of languages that are compiled, as a set of lower-case letters; those of scripts are left out, since settings and
 * passwords may be in one. */
static const char *const endings[] = {"ada", "adb", "ads", "asm", "c", "c++", "cc", "cl", "cob", "cpp", "cppm", "cr",
        "cs", "cu", "cuh", "cxx", "d", "def", "di", "f", "f03", "f08", "f77", "f90", "f95", "for", "fs", "go", "gperf",
        "h", "h++", "hh", "hpp", "hs", "hxx", "idl", "inc", "inl", "ipdl", "ipp", "ixx", "java", "jl", "kt", "l", "lhs",
        "ll", "lpr", "m", "metal", "ml", "mli", "mll", "mly", "mm", "mod", "nim", "odin", "pas", "pp", "pxd", "pxi",
        "pyx", "rl", "rs", "s", "scala", "swift", "sx", "tcc", "td", "tpp", "v", "vala", "x", "y", "yy", "zig"};

static bool has_ending(struct str path)
{
	const char *dot = memrchr(path.data, '.', path.len);
	struct str end = {dot ? dot + 1 : "", dot ? (size_t)(path.data + path.len - dot - 1) : 0};
	for (unsigned i = 0; i < sizeof endings / sizeof *endings; i++)
		if (strlen(endings[i]) == end.len && strncasecmp(endings[i], end.data, end.len) == 0)
			return true;
	return false;
}

/* Whether a path below a folder or repository may be that of source code: anybody who may upload symbols can name any.
 * Nothing hidden, such as .git/config, and nothing that is called otherwise than source code. */
static bool is_source(struct str path)
{
	bool right = has_ending(path);
	while (right && path.len > 0)
		right = str_cut(&path, '/').data[0] != '.';
	return right;
}

/* ---- folders ---- */

/* Links lead nowhere outside the folder. */
static int open_below(const char *folder, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = -1, directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0) {
		fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
		close(directory);
	}
	return fd;
}

static enum err read_file(int fd, struct buffer *out, struct error *e)
{
	struct stat st;
	ssize_t n = 1;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return error_set(e, ERR_MISSING, "no such file of source code");
	if (st.st_size > SOURCE_CODE_MAX)
		return error_set(e, ERR_TOO_LARGE, "the file is larger than 4 MiB");
	while (n > 0 && buffer_reserve(out, (size_t)st.st_size - out->len + 1)) {
		n = read(fd, out->data + out->len, (size_t)st.st_size - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return error_set(e, ERR_UNAVAILABLE, "the file cannot be read right now; try again");
	return n == 0 ? ERR_OK : no_memory(e);
}

static enum err from_folder(const char *item, const char *path, struct buffer *out, struct error *e)
{
	const char *equals = strchr(item, '=');
	const char *rest = below(path, (struct str){item, (size_t)(equals - item)});
	int fd = rest && is_source(str_from(rest)) ? open_below(equals + 1, rest) : -1;
	if (fd < 0)
		return error_set(e, ERR_MISSING, "no such file of source code");
	enum err err = read_file(fd, out, e);
	close(fd);
	return err;
}

/* ---- web servers ---- */

static uint8_t *text_space(void *arg, size_t *room)
{
	struct buffer *out = arg;
	if (!buffer_reserve(out, 1))
		return NULL;
	*room = out->cap - out->len;
	return out->data + out->len;
}

static bool text_commit(void *arg, size_t n)
{
	struct buffer *out = arg;
	out->len += n;
	return true;
}

static enum err judge(const struct bucket_result *r, struct error *e)
{
	if (r->outcome == BUCKET_OK)
		return ERR_OK;
	if (r->outcome == BUCKET_MISSING)
		return error_set(e, ERR_MISSING, "no such file of source code");
	if (r->outcome == BUCKET_TOO_LARGE)
		return error_set(e, ERR_TOO_LARGE, "the file is larger than 4 MiB");
	return error_set(e, ERR_UNAVAILABLE, "the file cannot be fetched right now; try again");
}

static void fetch_once(struct bucket_client *client, unsigned source, const char *path, const atomic_bool *cancel,
        struct buffer *out, struct bucket_result *result)
{
	struct bucket_sink sink = {.space = text_space, .commit = text_commit, .arg = out};
	buffer_reset(out);
	bucket_fetch_path(client, source, path, SOURCE_CODE_MAX, &sink, cancel, result);
}

static enum err fetch(struct bucket_client *client, unsigned source, const char *path, const atomic_bool *cancel,
        struct buffer *out, struct error *e)
{
	struct bucket_result result;
	fetch_once(client, source, path, cancel, out, &result);
	return judge(&result, e);
}

struct source_file_search {
	struct bucket_client *client;
	const char *path;
	const atomic_bool *cancel;
	struct buffer *out;
	struct bucket_result result; /* of the last attempt */
};

static enum source_answer ask(void *arg, unsigned source, struct str id)
{
	struct source_file_search *a = arg;
	(void)id;
	fetch_once(a->client, source, a->path, a->cancel, a->out, &a->result);
	switch (a->result.outcome) {
	case BUCKET_OK:
		return SOURCE_GOOD;
	case BUCKET_MISSING:
		return SOURCE_MISSING;
	case BUCKET_FAILED:
		return SOURCE_FAILED;
	case BUCKET_BROKEN:
	case BUCKET_TOO_LARGE:
	case BUCKET_ABORTED:
		break;
	}
	return SOURCE_STOP;
}

static enum err from_debuginfod(const struct source_code *s, struct bucket_client *client, const struct build_id *id,
        const char *path, const atomic_bool *cancel, struct buffer *out, struct error *e)
{
	static const char before[] = "buildid/", after[] = "/source";
	char url[3 * SOURCE_PATH_MAX + BUILD_ID_HEX + sizeof before + sizeof after], hex[BUILD_ID_HEX + 1];
	enum err err = error_set(e, ERR_MISSING, "no such file of source code");
	if (!id->len || path[0] != '/')
		return err;
	build_id_hex(hex, id->bytes, id->len);
	int n = snprintf(url, sizeof url, "%s%s%s", before, hex, after);
	*percent_encode(url + n, str_from(path), true) = 0;
	struct source_file_search a = {client, url, cancel, out, {.outcome = BUCKET_FAILED}};
	struct source_search search = {.kinds = 1u << BUCKET_DEBUGINFOD,
	        .tries = s->config->bucket_retries,
	        .cancel = cancel,
	        .ask = ask,
	        .arg = &a};
	const enum source_answer answer = source_search(s->buckets, &search);
	if (answer == SOURCE_FAILED)
		a.result.outcome = BUCKET_FAILED;
	return answer == SOURCE_MISSING ? err : judge(&a.result, e);
}

/* ---- repositories ---- */

/* Nothing that leads anywhere but below where it is put. */
static bool is_below(struct str path)
{
	char same[SOURCE_PATH_MAX + 1];
	return path.len > 0 && path.data[0] != '/' && canonical(same, path) && str_equal(str_from(same), path);
}

static bool is_hash(struct str s, size_t min, size_t max)
{
	return s.len >= min && s.len <= max && hex_only(s);
}

/* DIGEST/PATH: */
static bool split_generated(struct str values[FIELDS], struct str rest)
{
	if (rest.len == 0 || rest.data[rest.len - 1] != ':')
		return false;
	struct str path = {rest.data, rest.len - 1};
	values[PATH] = path;
	return is_below(path) && is_hash(str_cut(&path, '/'), DIGEST_MIN, DIGEST_MAX) && path.len > 0;
}

/* PREFIX/REPOSITORY:PATH:REVISION, where the revision is the hash of a commit or the beginning of it; or, of generated
 * files, PREFIX:DIGEST/PATH: */
static bool split(struct str values[FIELDS], struct str file, struct str prefix)
{
	bool generated = is_generated(prefix.data);
	if (file.len > SOURCE_PATH_MAX || file.len <= prefix.len || memcmp(file.data, prefix.data, prefix.len) != 0 ||
	        file.data[prefix.len] != (generated ? ':' : '/'))
		return false;
	const char *start = file.data + prefix.len + 1, *end = file.data + file.len;
	if (generated)
		return split_generated(values, (struct str){start, (size_t)(end - start)});
	const char *first = memchr(start, ':', (size_t)(end - start)),
	           *last = memrchr(start, ':', (size_t)(end - start));
	if (!first || first == last)
		return false;
	values[REPOSITORY] = (struct str){start, (size_t)(first - start)};
	values[PATH] = (struct str){first + 1, (size_t)(last - first - 1)};
	values[REVISION] = (struct str){last + 1, (size_t)(end - last - 1)};
	return is_below(values[REPOSITORY]) && is_below(values[PATH]) &&
	       is_hash(values[REVISION], REVISION_MIN, REVISION_MAX);
}

/* What stands behind the host of a URL, with its fields filled in; false: that is too long. */
static bool fill_in(char out[BUCKET_PLAIN_MAX + 1], const char *url, const struct str values[FIELDS])
{
	char *at = out;
	while (*url) {
		enum field f = field_at(url);
		size_t need = f < FIELDS ? 3 * values[f].len : 1;
		if (need > (size_t)(out + BUCKET_PLAIN_MAX - at))
			return false;
		if (f == FIELDS) {
			*at++ = *url++;
		} else {
			at = percent_encode(at, values[f], true);
			url += strlen(fields[f]);
		}
	}
	*at = 0;
	return true;
}

/* item: of the setting; host: the number of its URL. */
static enum err from_repository(const struct source_code *s, const char *item, unsigned host, struct str file,
        const atomic_bool *cancel, struct buffer *out, struct error *e)
{
	const char *equals = strchr(item, '=');
	char path[BUCKET_PLAIN_MAX + 1];
	struct str values[FIELDS];
	if (!split(values, file, (struct str){item, (size_t)(equals - item)}) || !is_source(values[PATH]) ||
	        !fill_in(path, below_host(equals + 1) + 1, values))
		return error_set(e, ERR_MISSING, "no such file of source code");
	struct bucket_client *client = bucket_client_take(s->hosts);
	enum err err = client ? fetch(client, host, path, cancel, out, e) : no_memory(e);
	bucket_client_give(client);
	return err;
}

enum err source_code_get(const struct source_code *s, struct bucket_client *client, const struct build_id *id,
        struct str file, const atomic_bool *cancel, struct buffer *out, struct error *e)
{
	const struct config_list *items = &s->config->source_code;
	char path[SOURCE_PATH_MAX + 1];
	enum err err = error_set(e, ERR_MISSING, "no such file of source code");
	if (!canonical(path, file))
		return err;
	for (unsigned i = 0, host = 0; i < items->count && err == ERR_MISSING; i++) {
		const char *item = items->items[i], *equals = strchr(item, '=');
		if (strcmp(item, debuginfod) == 0)
			err = from_debuginfod(s, client, id, path, cancel, out, e);
		else if (is_url(equals + 1))
			err = from_repository(s, item, host++, file, cancel, out, e);
		else
			err = from_folder(item, path, out, e);
	}
	if (!err && memchr(out->data ? (const char *)out->data : "", 0, out->len))
		err = error_set(e, ERR_CORRUPT, "the file is not text");
	return err;
}
