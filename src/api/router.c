/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/router.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/sym_path.h"

enum { ACTIONS = 2, ECHOED_MAX = 1024 };

struct action {
	const char *method; /* NULL: none */
	void (*handle)(struct exchange *x);
};

enum { BAD_BODY = 1, BAD_KEY = 2, HEALTH_CHECK = 4, NO_STORE = 8 };
/* For a path: every one that sym_path_is or file_path_is takes, and no other row. */
#define SYM_FILE "*.sym"
#define OTHER_FILE "*"

struct route {
	const char *path; /* NULL: everything that no other row matches */
	bool prefix;      /* matches every path that begins with it */
	const char *name; /* in the metrics */
	unsigned flags;   /* BAD_...: reasons besides the method to refuse a request */
	struct action actions[ACTIONS];
};

static const struct route routes[] = {
        {NULL, false, "unknown", 0, {{NULL, NULL}}},
        {"/symbolicate/v5", false, "v5", BAD_BODY, {{"POST", symbolicate_v5_handle}}},
        {"/symbolicate/v4", false, "v4", BAD_BODY, {{"POST", symbolicate_v4_handle}}},
        {"/symbolicate/text", false, "text", BAD_BODY, {{"POST", symbolicate_text_handle}}},
        {"/asm/v1", false, "asm", BAD_BODY, {{"POST", asm_handle}}},
        {"/source/v1", false, "source", BAD_BODY, {{"POST", source_handle}}},
        {"/", false, "home", BAD_BODY, {{"POST", symbolicate_v4_handle}}},
        {"/api/symbols-ranges", false, "ranges", BAD_BODY | BAD_KEY | NO_STORE, {{"POST", upload_ranges_handle}}},
        {"/api/symbols-returnpads", false, "returnpads", BAD_BODY | BAD_KEY | NO_STORE,
                {{"POST", upload_returnpads_handle}}},
        {"/api/symbols/", true, "uploads", BAD_KEY | NO_STORE,
                {{"GET", symbols_show_handle}, {"DELETE", symbols_remove_handle}}},
        {"/api/symbols", false, "symbols", BAD_KEY | NO_STORE, {{"GET", symbols_list_handle}}},
        {SYM_FILE, false, "sym", NO_STORE, {{"GET", sym_get_handle}}},
        {OTHER_FILE, false, "file", NO_STORE, {{"GET", file_get_handle}}},
        {"/buildid/", true, "buildid", NO_STORE, {{"GET", buildid_get_handle}}},
        {"/cache/", true, "cache", BAD_KEY, {{"DELETE", cache_delete_handle}}},
        {"/upload/auth_info", false, "auth_info", BAD_KEY, {{"POST", auth_info_handle}}},
        {"/upload", false, "zip_upload", BAD_BODY | BAD_KEY | NO_STORE, {{"POST", sym_zip_handle}}},
        {"/api/sym/", true, "sym_upload", BAD_BODY | BAD_KEY | NO_STORE, {{"PUT", sym_put_handle}}},
        {"/api/file/", true, "file_upload", BAD_BODY | BAD_KEY | NO_STORE, {{"PUT", file_put_handle}}},
        {"/api/key", false, "key", BAD_KEY | HEALTH_CHECK, {{"GET", key_handle}}},
        {"/api/missing", false, "missing", BAD_KEY, {{"GET", missing_handle}}},
        {"/__lbheartbeat__", false, "lbheartbeat", HEALTH_CHECK, {{"GET", lbheartbeat_handle}}},
        {"/__heartbeat__", false, "heartbeat", HEALTH_CHECK, {{"GET", heartbeat_handle}}},
        {"/__version__", false, "version", 0, {{"GET", version_handle}}},
        {"/__broken__", false, "broken", 0, {{"GET", broken_handle}}},
        {"/__metrics__", false, "metrics", HEALTH_CHECK, {{"GET", metrics_handle}}},
};
enum { ROUTES = sizeof routes / sizeof routes[0], UNKNOWN = 0 };
_Static_assert(sizeof routes / sizeof routes[0] <= METRIC_ROUTES, "each route has its own series");

#define MAY_GIVE(route, ...) \
	metric_route_may_give((route), (const int[]){__VA_ARGS__}, sizeof(int[]){__VA_ARGS__} / sizeof(int))

/* Every status that a route can return has a series in the metrics from the start. */
static void count_route(unsigned route)
{
	metric_name_route(route, routes[route].name);
	if (route == UNKNOWN)
		MAY_GIVE(route, 404);
	else
		MAY_GIVE(route, 200, 405, 500, 503);
	if (routes[route].flags & BAD_BODY)
		MAY_GIVE(route, 400, 413);
	if ((routes[route].flags & (BAD_BODY | BAD_KEY)) == BAD_BODY)
		MAY_GIVE(route, 499);
	if (routes[route].flags & BAD_KEY)
		MAY_GIVE(route, 400, 401, 403);
	if (routes[route].flags & NO_STORE)
		MAY_GIVE(route, 404);
}

static void count_routes(void)
{
	for (unsigned i = 0; i < ROUTES; i++)
		count_route(i);
}

/* Some clients add slashes before or after the path: one at the front is kept. */
static struct str without_slashes(struct str path)
{
	while (path.len > 1 && path.data[0] == '/' && path.data[1] == '/')
		path = (struct str){path.data + 1, path.len - 1};
	return path;
}

static bool is_route(const struct route *r, struct str path)
{
	struct str want = str_from(r->path);
	if (strcmp(r->path, SYM_FILE) == 0)
		return sym_path_is(path);
	if (strcmp(r->path, OTHER_FILE) == 0)
		return file_path_is(path);
	if (r->prefix ? path.len > want.len : path.len == want.len + 1 && path.data[want.len] == '/')
		path.len = want.len;
	return str_equal(path, want);
}

static unsigned find_route(struct str path)
{
	for (unsigned i = UNKNOWN + 1; i < ROUTES; i++)
		if (is_route(&routes[i], path))
			return i;
	return UNKNOWN;
}

/* HEAD is GET without the reply's body. */
static const struct action *find_action(const struct route *r, struct str method)
{
	if (str_equal(method, str_from("HEAD")))
		method = str_from("GET");
	for (unsigned i = 0; i < ACTIONS && r->actions[i].method; i++)
		if (str_equal(method, str_from(r->actions[i].method)))
			return &r->actions[i];
	return NULL;
}

/* "GET, HEAD, POST, OPTIONS" */
static void list_methods(const struct route *r, char out[64])
{
	size_t n = 0;
	for (unsigned i = 0; i < ACTIONS && r->actions[i].method; i++) {
		const char *method = r->actions[i].method;
		const char *more = strcmp(method, "GET") == 0 ? ", HEAD" : "";
		n += (size_t)snprintf(out + n, 64 - n, "%s%s, ", method, more);
	}
	snprintf(out + n, 64 - n, "OPTIONS");
}

/* Echoes only characters that lists of header names consist of: nothing that could end the line. */
static bool is_header_list(const char *text)
{
	static const char allowed[] =
	        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~, \t";
	size_t n = strlen(text);
	return n > 0 && n <= ECHOED_MAX && strspn(text, allowed) == n;
}

static void preflight(struct exchange *x, const struct route *r)
{
	char methods[64], extra[ECHOED_MAX + 512];
	const char *asked = exchange_param(x, "HTTP_ACCESS_CONTROL_REQUEST_HEADERS");
	list_methods(r, methods);
	int n = snprintf(extra, sizeof extra,
	        "Allow: %s\r\n"
	        "Access-Control-Allow-Methods: %s\r\n"
	        "Access-Control-Max-Age: 86400\r\n",
	        methods, methods);
	if (asked && is_header_list(asked))
		snprintf(extra + n, sizeof extra - (size_t)n, "Access-Control-Allow-Headers: %s\r\n", asked);
	exchange_reply_text(x, 200, "application/json", extra, str_from("{}"));
}

static void refuse_method(struct exchange *x, const struct route *r)
{
	char methods[64], extra[128];
	struct error e;
	list_methods(r, methods);
	snprintf(extra, sizeof extra, "Allow: %s\r\n", methods);
	error_set(&e, ERR_BAD_METHOD, "the method is not one of %s", methods);
	exchange_reply_refusal(x, &e, extra);
}

void router_handle(struct exchange *x)
{
	static pthread_once_t counted = PTHREAD_ONCE_INIT;
	struct error e;
	pthread_once(&counted, count_routes);
	x->path = sym_path_without_try(without_slashes(x->path));
	x->route = find_route(x->path);
	const struct route *r = &routes[x->route];
	const struct action *action = find_action(r, x->method);
	x->health_check = r->flags & HEALTH_CHECK;
	if (x->route == UNKNOWN) {
		error_set(&e, ERR_NOT_FOUND, "no such page");
		exchange_reply_error(x, &e, 0);
	} else if (action) {
		action->handle(x);
	} else if (str_equal(x->method, str_from("OPTIONS"))) {
		preflight(x, r);
	} else {
		refuse_method(x, r);
	}
}
