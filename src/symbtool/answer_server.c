#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file_id.h"
#include "symbtool/answer.h"

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
		err = error_set(e, ERR_NO_MEMORY, "out of memory");
	return err;
}

enum err answer_server(const struct question *q, struct server *s, struct buffer *reply, struct error *e)
{
	struct buffer body;
	struct connection *c = connection_new(s);
	buffer_init(&body, REPLY_MAX);
	reply->max = REPLY_MAX;
	enum err err = c ? write_request(&body, q, e) : error_set(e, ERR_NO_MEMORY, "out of memory");
	struct server_request request = {.path = "/symbolicate/v5",
	        .headers = "Content-Type: application/json\n",
	        .post = true,
	        .data = body.data,
	        .len = body.len};
	if (!err)
		err = connection_send(c, &request, reply, e);
	buffer_release(&body);
	connection_free(c);
	return err;
}
