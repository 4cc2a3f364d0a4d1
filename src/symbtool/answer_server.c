/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/ids.h"
#include "symbtool/answer.h"
#include "symbtool/cli.h"

enum { REPLY_MAX = 300 << 20 }; /* bytes; servers stop before */

/* "name","id" of a file. */
static enum err add_file(struct buffer *out, const char *path, int fd, struct error *e)
{
	struct file_id id;
	char hex[FILE_ID_HEX + 1];
	const char *slash = strrchr(path, '/');
	enum err err = file_id_of_fd(&id, fd, e);
	if (err)
		return err;
	file_id_hex(hex, &id);
	buffer_append_json(out, str_from(slash ? slash + 1 : path));
	buffer_printf(out, ",\"%s\"", hex);
	return ERR_OK;
}

/* "name","id" of what is no file here. */
static enum err add_name(struct buffer *out, const char *module, struct error *e)
{
	struct file_id id;
	const char *slash = strrchr(module, '/');
	if (!slash && !file_id_parse(&id, str_from(module)))
		return error_set(e, ERR_BAD_REQUEST, "%.150s: no file, and neither NAME/ID nor a FileID", module);
	buffer_append_json(out, (struct str){module, slash ? (size_t)(slash - module) : strlen(module)});
	buffer_append(out, ",", 1);
	buffer_append_json(out, str_from(slash ? slash + 1 : module));
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

static enum err add_module(struct buffer *out, const char *module, struct error *e)
{
	int fd;
	enum err err = open_module(module, &fd, e);
	if (err)
		return err;
	buffer_append(out, "[", 1);
	err = fd >= 0 ? add_file(out, module, fd, e) : add_name(out, module, e);
	buffer_append(out, "]", 1);
	if (fd >= 0)
		close(fd);
	return err;
}

static enum err write_request(struct buffer *out, const struct question *q, struct error *e)
{
	enum err err = ERR_OK;
	size_t i = 0;
	buffer_printf(out, "{\"memoryMap\":[");
	for (size_t m = 0; m < q->module_count && !err; m++) {
		buffer_append(out, ",", m ? 1 : 0);
		err = add_module(out, q->modules[m], e);
	}
	buffer_printf(out, "],\"stacks\":[");
	for (size_t stack = 0; stack < q->stack_count; stack++) {
		size_t first = i;
		buffer_printf(out, "%s[", stack ? "," : "");
		for (; i < q->ends[stack]; i++)
			buffer_printf(out, "%s[%" PRIu32 ",%" PRIu64 "]", i > first ? "," : "", q->frames[i].module,
			        q->frames[i].address);
		buffer_append(out, "]", 1);
	}
	buffer_printf(out, "]}");
	if (!err && out->failed)
		err = no_memory(e);
	return err;
}

static enum err send_v5(
        struct server *s, const char *headers, const struct buffer *body, struct buffer *reply, struct error *e)
{
	struct connection *c = connection_new(s);
	reply->max = REPLY_MAX;
	struct server_request request = {
	        .path = "/symbolicate/v5", .headers = headers, .post = true, .data = body->data, .len = body->len};
	enum err err = c ? connection_send(c, &request, reply, e) : no_memory(e);
	connection_free(c);
	return err;
}

enum err answer_server(const struct question *q, struct server *s, struct buffer *reply, struct error *e)
{
	struct buffer body;
	buffer_init(&body, REPLY_MAX);
	enum err err = write_request(&body, q, e);
	if (!err)
		err = send_v5(s, "Content-Type: application/json\n", &body, reply, e);
	buffer_release(&body);
	return err;
}

/* ---- modules that were not found ---- */

/* A request for one frame of each module of `found` that is false and was not told. Returns how many. */
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
		buffer_printf(out, "%s[", count++ ? "," : "");
		buffer_append_json(out, (struct str){key, (size_t)(slash - key)});
		buffer_append(out, ",", 1);
		buffer_append_json(out, str_from(slash + 1));
		buffer_append(out, "]", 1);
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
			        why && strcmp(why, "not found") != 0 ? why
			                                             : "no source of the server has symbols of it");
	}
}

enum err answer_missing(struct server *s, const struct buffer *reply, json_t *told, bool *lacking, struct error *e)
{
	struct buffer body, why;
	enum err err = ERR_OK;
	json_t *root = json_loadb((const char *)reply->data, reply->len, JSON_ALLOW_NUL, NULL);
	buffer_init(&body, REPLY_MAX);
	buffer_init(&why, REPLY_MAX);
	const json_t *result = json_array_get(json_object_get(root, "results"), 0);
	if (write_why(&body, json_object_get(result, "found_modules"), told)) {
		*lacking = true;
		err = send_v5(s, "Content-Type: application/json\nDebug: true\n", &body, &why, e);
		json_t *reasons = err ? NULL : json_loadb((const char *)why.data, why.len, JSON_ALLOW_NUL, NULL);
		result = json_array_get(json_object_get(reasons, "results"), 0);
		complain_of(json_object_get(result, "found_modules"),
		        json_object_get(json_object_get(json_object_get(reasons, "debug"), "unnamed"), "modules"));
		json_decref(reasons);
	}
	json_decref(root);
	buffer_release(&body);
	buffer_release(&why);
	return err;
}
