/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a server. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "extract/ids.h"
#include "symbfile/file_id.h"
#include "symbtool/answer.h"
#include "symbtool/cli.h"

/* ---- requests ---- */

enum err answer_send(
        struct server_connection *c, bool debug, const struct buffer *body, struct buffer *reply, struct error *e)
{
	reply->max = SERVER_REPLY_MAX;
	struct server_request request = {.path = "/symbolicate/v5",
	        .headers = debug ? "Content-Type: application/json\nDebug: 1\n" : "Content-Type: application/json\n",
	        .data = body->data,
	        .len = body->len};
	return connection_send(c, &request, reply, e);
}

void answer_put_module(struct buffer *out, bool first, struct str name, struct str id)
{
	buffer_printf(out, "%s[", first ? "" : ",");
	buffer_append_json(out, name);
	buffer_append(out, ",", 1);
	buffer_append_json(out, id);
	buffer_append(out, "]", 1);
}

json_t *answer_parse(const struct buffer *reply, const json_t **result)
{
	json_t *root = json_loadb((const char *)reply->data, reply->len, JSON_ALLOW_NUL, NULL);
	*result = json_array_get(json_object_get(root, "results"), 0);
	return root;
}

/* ---- modules ---- */

/* How a module is asked for. */
enum server_id {
	ID_UNTRIED,  /* a file, by its FileID, which may be unknown to the server */
	ID_GIVEN,    /* the same when it is known, and what is no file */
	ID_BUILD_ID, /* a file of another FileID than the one that was uploaded, since it was stripped, say */
};

struct server_module {
	enum server_id by;
	char *name, *id;
	struct build_id build_id; /* of a file, or what stands for it */
	uint64_t image_base;      /* that addresses of a build id count from */
};

static enum err read_file(struct server_module *m, const char *path, int fd, struct error *e)
{
	struct file_id id;
	struct ids own = {.image_base = 0};
	struct error not_elf;
	char hex[FILE_ID_HEX + 1];
	enum err err = file_id_of_fd(&id, fd, NULL, e);
	if (err)
		return err;
	ids_of_fd(&own, fd, NULL, &not_elf);
	file_id_hex(hex, &id);
	m->by = own.found_by.len ? ID_UNTRIED : ID_GIVEN;
	m->build_id = own.found_by;
	m->image_base = own.image_base;
	m->name = strdup(basename(path));
	m->id = strdup(hex);
	return ERR_OK;
}

static bool is_id(struct str text)
{
	struct file_id id;
	struct build_id_question question;
	return file_id_parse(&id, text) || build_id_question_parse(&question, text);
}

/* What is no file here: NAME/ID, or an ID, which is its own name. */
static enum err read_name(struct server_module *m, const char *module, struct error *e)
{
	const char *slash = strrchr(module, '/');
	if (!slash && !is_id(str_from(module)))
		return error_set(e, ERR_BAD_REQUEST, "%.150s: no such file, and neither NAME/ID nor an ID", module);
	m->by = ID_GIVEN;
	m->name = strndup(module, slash ? (size_t)(slash - module) : strlen(module));
	m->id = strdup(slash ? slash + 1 : module);
	return ERR_OK;
}

/* A directory of this name is none: buckets are made of such. */
static enum err open_module(const char *module, int *fd, struct error *e)
{
	struct stat st;
	*fd = -1;
	if (stat(module, &st) != 0 || !S_ISREG(st.st_mode))
		return ERR_OK;
	*fd = open(module, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? error_set(e, ERR_IO, "%.150s: %s", module, strerror(errno)) : ERR_OK;
}

static enum err module_init(struct server_module *m, const char *module, struct error *e)
{
	int fd;
	*m = (struct server_module){0};
	enum err err = open_module(module, &fd, e);
	if (err)
		return err;
	err = fd >= 0 ? read_file(m, module, fd, e) : read_name(m, module, e);
	if (fd >= 0)
		close(fd);
	return err || (m->name && m->id) ? err : no_memory(e);
}

void server_modules_release(struct server_modules *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->items[i].name);
		free(s->items[i].id);
	}
	free(s->items);
	*s = (struct server_modules){0};
}

static enum err see_modules(struct server_modules *s, const struct question *q, struct error *e)
{
	enum err err = ERR_OK;
	if (q->module_count == s->count)
		return ERR_OK;
	if (!array_reserve(&s->items, &s->cap, q->module_count, sizeof *s->items))
		return no_memory(e);
	while (s->count < q->module_count && !err) {
		err = module_init(&s->items[s->count], q->modules[s->count], e);
		s->count++;
	}
	return err;
}

/* ---- the request ---- */

static uint64_t address_of(const struct server_module *m, uint64_t address)
{
	return m->by == ID_BUILD_ID ? address - m->image_base : address;
}

static enum err write_request(
        struct buffer *out, const struct question *q, const struct server_modules *modules, struct error *e)
{
	size_t i = 0;
	buffer_printf(out, "{\"memoryMap\":[");
	for (size_t m = 0; m < q->module_count; m++)
		answer_put_module(out, !m, str_from(modules->items[m].name), str_from(modules->items[m].id));
	buffer_printf(out, "],\"stacks\":[");
	for (size_t stack = 0; stack < q->stack_count; stack++) {
		size_t first = i;
		buffer_printf(out, "%s[", stack ? "," : "");
		for (; i < q->ends[stack]; i++) {
			const struct question_frame *f = &q->frames[i];
			buffer_printf(out, "%s[%" PRIu32 ",%" PRIu64 "]", i > first ? "," : "", f->module,
			        address_of(&modules->items[f->module], f->address));
		}
		buffer_append(out, "]", 1);
	}
	buffer_printf(out, "]}");
	return out->failed ? no_memory(e) : ERR_OK;
}

/* ---- the reply ---- */

static bool has_untried(const struct server_modules *modules)
{
	bool any = false;
	for (size_t i = 0; i < modules->count; i++)
		any = any || modules->items[i].by == ID_UNTRIED;
	return any;
}

static enum err try_build_id(struct server_module *m, struct error *e)
{
	char *hex = malloc(BUILD_ID_HEX + 1);
	if (!hex)
		return no_memory(e);
	build_id_hex(hex, m->build_id.bytes, m->build_id.len);
	free(m->id);
	m->id = hex;
	m->by = ID_BUILD_ID;
	return ERR_OK;
}

/* Files whose FileID the server does not know are asked for by build id next. *again: there are such files. */
static enum err decide(struct server_modules *modules, const struct buffer *reply, bool *again, struct error *e)
{
	const json_t *result;
	json_t *root = answer_parse(reply, &result);
	const json_t *found = json_object_get(result, "found_modules");
	char key[NAME_MAX + FILE_ID_HEX + 2];
	enum err err = ERR_OK;
	for (size_t i = 0; i < modules->count && !err; i++) {
		struct server_module *m = &modules->items[i];
		if (m->by != ID_UNTRIED)
			continue;
		snprintf(key, sizeof key, "%s/%s", m->name, m->id);
		const json_t *said = json_object_get(found, key);
		if (json_is_true(said))
			m->by = ID_GIVEN;
		if (!json_is_false(said))
			continue;
		err = try_build_id(m, e);
		*again = true;
	}
	json_decref(root);
	return err;
}

enum err answer_server(const struct question *q, struct server_modules *modules, struct server_connection *c,
        struct buffer *reply, struct error *e)
{
	struct buffer body;
	bool again = true;
	enum err err = see_modules(modules, q, e);
	buffer_init(&body, SERVER_REPLY_MAX);
	while (again && !err) {
		again = false;
		buffer_reset(&body);
		buffer_reset(reply);
		err = write_request(&body, q, modules, e);
		if (!err)
			err = answer_send(c, q->reasons, &body, reply, e);
		if (!err && has_untried(modules))
			err = decide(modules, reply, &again, e);
	}
	buffer_release(&body);
	return err;
}

/* ---- modules that were not found ---- */

/* Makes a request for one frame of each module that is false in `found` and was not reported yet. Returns how many
 * there are. */
static size_t write_why(struct buffer *out, const json_t *found, json_t *told)
{
	const char *key;
	json_t *value;
	size_t count = 0;
	buffer_printf(out, "{\"memoryMap\":[");
	json_object_foreach((json_t *)found, key, value)
	{
		const char *slash = strrchr(key, '/');
		if (!json_is_false(value) || json_object_get(told, key) || !slash)
			continue;
		json_object_set_new(told, key, json_true());
		answer_put_module(out, !count++, (struct str){key, (size_t)(slash - key)}, str_from(slash + 1));
	}
	buffer_printf(out, "],\"stacks\":[[");
	for (size_t i = 0; i < count; i++)
		buffer_printf(out, "%s[%zu,0]", i ? "," : "", i);
	buffer_printf(out, "]]}");
	return count;
}

static void complain_of(const json_t *found, const json_t *reasons)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)found, key, value)
	{
		const char *why = json_string_value(json_object_get(reasons, key));
		if (json_is_false(value))
			complain(key, "%s",
			        why && strcmp(why, "not found") != 0 ? why : "the server has no symbols for it");
	}
}

enum err answer_missing(
        struct server_connection *c, const struct buffer *reply, json_t *told, bool *lacking, struct error *e)
{
	struct buffer body, why;
	enum err err = ERR_OK;
	const json_t *result;
	json_t *root = answer_parse(reply, &result);
	buffer_init(&body, SERVER_REPLY_MAX);
	buffer_init(&why, SERVER_REPLY_MAX);
	if (write_why(&body, json_object_get(result, "found_modules"), told)) {
		*lacking = true;
		err = answer_send(c, true, &body, &why, e);
		json_t *reasons = answer_parse(&why, &result);
		complain_of(json_object_get(result, "found_modules"),
		        json_object_get(json_object_get(json_object_get(reasons, "debug"), "unnamed"), "modules"));
		json_decref(reasons);
	}
	json_decref(root);
	buffer_release(&body);
	buffer_release(&why);
	return err;
}
