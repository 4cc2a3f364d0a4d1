/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool list and remove: what a server has of executables. */
#include <config.h>

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "extract/ids.h"
#include "symbtool/file_kind.h"
#include "symbtool/server.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char list_usage[] =
        "Usage: symbtool list [OPTION]... --url URL [ID]...\n"
        "\n"
        "Lists the uploads of the executables with these IDs (FileIDs, build ids, debug ids, or the executables\n"
        "themselves); without an ID, all uploads, the newest first. A star marks the sets that answer. The key needs "
        "the right \"read\"; with an\n"
        "ID, \"upload\" is enough.\n";
static const char remove_usage[] = "Usage: symbtool remove [OPTION]... --url URL ID...\n"
                                   "\n"
                                   "Removes all uploads of the executables with these IDs (or of these files), or only "
                                   "one set. The key needs the\n"
                                   "right \"remove\".\n";

enum { PAGE = 200, PATH_BYTES = 4096 };

struct uploads_command {
	struct server server;
	const char *uploader, *set;
	uint64_t limit;
	bool by_size, json;
	struct server_connection *connection;
};

/* ---- requests ---- */

/* Releases the path. NULL on failure. */
static json_t *request(struct uploads_command *a, const char *method, struct buffer *path, struct error *e)
{
	json_t *root = NULL;
	if (buffer_append(path, "", 1))
		root = connection_ask(
		        a->connection, &(struct server_request){.path = (const char *)path->data, .method = method}, e);
	else
		no_memory(e);
	buffer_release(path);
	return root;
}

/* Appends a text to a path, percent-encoded. */
static void add_escaped(struct buffer *path, const char *before, const char *text)
{
	char *escaped = curl_easy_escape(NULL, text, 0);
	buffer_printf(path, "%s%s", before, escaped ? escaped : "");
	path->failed = path->failed || !escaped;
	curl_free(escaped);
}

/* ---- list ---- */

static const char *member_text(const json_t *set, const char *key)
{
	const char *text = json_string_value(json_object_get(set, key));
	return text ? text : "-";
}

static void print_headings(const struct uploads_command *a)
{
	if (!a->json)
		printf("  %-32s %-20s %-10s %12s %-15s %s %s %s\n", "file id", "time", "kind", "bytes", "quality",
		        "program", "uploader", "set");
}

static void print_set(const struct uploads_command *a, const char *file_id, json_t *set)
{
	if (a->json) {
		json_object_set_new(set, "file_id", json_string(file_id));
		print_json_line(set);
		return;
	}
	bool answers = json_is_true(json_object_get(set, "answers"));
	bool pending = json_is_false(json_object_get(set, "complete"));
	struct buffer line;
	buffer_init(&line, SIZE_MAX);
	buffer_printf(&line, "%c %s %-20s %-10s %12" JSON_INTEGER_FORMAT " %-15s %s %s %s%s", answers ? '*' : ' ',
	        file_id, member_text(set, "time"), member_text(set, "kind"),
	        json_integer_value(json_object_get(set, "size")),
	        pending ? "not complete" : member_text(set, "quality"), member_text(set, "program"),
	        member_text(set, "uploader"), member_text(set, "set"),
	        json_is_true(json_object_get(set, "forced")) ? " forced" : "");
	print_visible_str(stdout, (struct str){(const char *)line.data, line.len});
	putchar('\n');
	buffer_release(&line);
}

static enum err list_one(struct uploads_command *a, const char *id, struct error *e)
{
	struct buffer path;
	buffer_init(&path, PATH_BYTES);
	add_escaped(&path, "/api/symbols/", id);
	json_t *root = request(a, NULL, &path, e);
	if (!root)
		return e->code;
	json_t *sets = json_object_get(root, "sets");
	const char *file_id = json_string_value(json_object_get(root, "file_id"));
	for (size_t i = 0; i < json_array_size(sets); i++)
		print_set(a, file_id ? file_id : id, json_array_get(sets, i));
	enum err err = json_array_size(sets) ? ERR_OK : error_set(e, ERR_MISSING, "nothing was uploaded");
	json_decref(root);
	return err;
}

static enum err list_all(struct uploads_command *a, struct error *e)
{
	char after[512] = "";
	uint64_t left = a->limit;
	do {
		struct buffer path;
		buffer_init(&path, PATH_BYTES);
		buffer_printf(&path, "/api/symbols?sort=%s&limit=%" PRIu64, a->by_size ? "size" : "newest",
		        left < PAGE ? left : PAGE);
		if (a->uploader)
			add_escaped(&path, "&uploader=", a->uploader);
		if (*after)
			add_escaped(&path, "&after=", after);
		json_t *root = request(a, NULL, &path, e);
		if (!root)
			return e->code;
		json_t *sets = json_object_get(root, "sets");
		const char *next = json_string_value(json_object_get(root, "next"));
		for (size_t i = 0; i < json_array_size(sets) && left; i++, left--)
			print_set(a, member_text(json_array_get(sets, i), "file_id"), json_array_get(sets, i));
		snprintf(after, sizeof after, "%s", next ? next : "");
		json_decref(root);
	} while (left && *after);
	return ERR_OK;
}

/* ---- remove ---- */

static enum err remove_one(struct uploads_command *a, const char *id, struct error *e)
{
	struct buffer path;
	buffer_init(&path, PATH_BYTES);
	add_escaped(&path, "/api/symbols/", id);
	if (a->set)
		add_escaped(&path, "/", a->set);
	json_t *root = request(a, "DELETE", &path, e);
	if (!root)
		return e->code;
	if (a->json) {
		json_object_set_new(root, "id", json_string(id));
		print_json_line(root);
	} else {
		printf("%s: removed %" JSON_INTEGER_FORMAT " objects, %" JSON_INTEGER_FORMAT " bytes\n", id,
		        json_integer_value(json_object_get(root, "objects")),
		        json_integer_value(json_object_get(root, "bytes")));
	}
	json_decref(root);
	return ERR_OK;
}

/* ---- both ---- */

/* An id, or a file that has one. */
static enum err each_operand(struct uploads_command *a, const char *word,
        enum err (*one)(struct uploads_command *a, const char *id, struct error *e), struct error *e)
{
	struct build_id slices[VIEW_SLICES_MAX];
	struct file_id id;
	char hex[FILE_ID_HEX + 1];
	int fd = strchr(word, '/') || !file_id_parse(&id, str_from(word)) ? open(word, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 && strchr(word, '/') && !file_id_parse(&id, str_from(word)))
		return error_set(e, ERR_IO, "%s", strerror(errno));
	if (fd < 0)
		return one(a, word, e);
	size_t count = view_slices(slices, fd), i = 0;
	enum err err = file_kind_check(word, TAKES_ELF, e);
	do {
		err = err ? err : file_id_of_fd(&id, fd, count ? &slices[i] : NULL, e);
		file_id_hex(hex, &id);
		err = err ? err : one(a, hex, e);
	} while (!err && ++i < count);
	close(fd);
	return err;
}

static int each_id(const struct verb *v, struct uploads_command *a, const struct operands *ids,
        enum err (*one)(struct uploads_command *a, const char *id, struct error *e))
{
	struct error e = {0};
	unsigned failed = 0;
	enum err err = server_open(&a->server, &e);
	if (!err && !(a->connection = connection_new(&a->server)))
		err = no_memory(&e);
	if (!err && one == list_one)
		print_headings(a);
	if (!err && !ids->count)
		err = list_all(a, &e);
	if (err)
		complain(v->name, "%s", e.text);
	for (size_t i = 0; i < ids->count && !err; i++)
		if (each_operand(a, ids->items[i], one, &e)) {
			complain(ids->items[i], "%s", e.text);
			failed++;
		}
	connection_free(a->connection);
	server_release(&a->server);
	return e.code == ERR_CONFIG ? EXIT_USAGE : err || failed ? EXIT_FAILED : EXIT_DONE;
}

static int run_list(const struct verb *v, int argc, char **argv)
{
	struct uploads_command a = {.limit = 50, .server = {.keyed = true, .retry_time = 30}};
	const struct option_row rows[] = {
	        SERVER_ROWS(a.server),
	        KEY_ROWS(a.server),
	        {"--by-size", OPTION_FLAG, &a.by_size, 0, 0, "the largest first"},
	        {"--uploader NAME", OPTION_TEXT, &a.uploader, 0, 0, "only uploads by this key"},
	        {"--limit N", OPTION_NUMBER, &a.limit, 1, UINT32_MAX, "how many to list at most (50)"},
	        {"--json", OPTION_FLAG, &a.json, 0, 0, "one object for each set"},
	};
	struct operands ids;
	int code = options_read(v, rows, sizeof rows / sizeof *rows, argc, argv, &ids);
	if (code != OPTIONS_GO_ON)
		return code;
	a.server.url = server_url(a.server.url);
	if (!a.server.url)
		return complain_usage(v, "--url is missing");
	if (ids.count && (a.uploader || a.by_size))
		return complain_usage(v, "--uploader and --by-size cannot be combined with an ID");
	return each_id(v, &a, &ids, list_one);
}

static int run_remove(const struct verb *v, int argc, char **argv)
{
	struct uploads_command a = {.server = {.keyed = true, .retry_time = 30}};
	const struct option_row rows[] = {
	        SERVER_ROWS(a.server),
	        KEY_ROWS(a.server),
	        {"--set SET", OPTION_TEXT, &a.set, 0, 0, "only this set, as list prints it"},
	        {"--json", OPTION_FLAG, &a.json, 0, 0, "one object for each id"},
	};
	struct operands ids;
	int code = options_read(v, rows, sizeof rows / sizeof *rows, argc, argv, &ids);
	if (code != OPTIONS_GO_ON)
		return code;
	a.server.url = server_url(a.server.url);
	if (!a.server.url || !ids.count)
		return complain_usage(v, !a.server.url ? "--url is missing" : "no id");
	return each_id(v, &a, &ids, remove_one);
}

const struct verb verb_list = {"list", "list what was uploaded", list_usage, run_list, NULL},
                  verb_remove = {"remove", "remove what was uploaded", remove_usage, run_remove, NULL};
