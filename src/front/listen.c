/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to listen on: created here, or inherited from systemd or spawn-fcgi. */
#include <config.h>

#include "front/front.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/files.h"

enum { SYSTEMD_FIRST = 3, INHERITED_STDIN = 0 };

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in4 = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;
	if (address->ss_family == AF_INET)
		return ntohl(in4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (address->ss_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return in6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* Anyone who can connect can make libfcgi abort the process, so TCP is limited to this machine unless the settings say
 * otherwise. */
static enum err check_address(const struct config *c, const struct sockaddr_storage *address, struct error *e)
{
	if (address->ss_family == AF_UNIX || c->listen_tcp_anywhere || is_loopback(address))
		return ERR_OK;
	return error_set(e, ERR_CONFIG,
	        "listen: a TCP address that is not loopback is refused: anyone who can connect can crash the process "
	        "(set "
	        "listen_tcp_anywhere to allow it)");
}

/* ---- inherited ---- */

static bool is_listener(int fd)
{
	int listens = 0;
	socklen_t len = sizeof listens;
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
}

/* systemd's protocol: sockets from descriptor 3 on, meant for this process. */
static bool systemd_passed_one(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	return pid && count && strtol(pid, NULL, 10) == (long)getpid() && strtol(count, NULL, 10) >= 1;
}

/* Descriptor 0 stays taken, so that no file that is opened later becomes standard input. */
static int take_stdin(void)
{
	int fd = fcntl(INHERITED_STDIN, F_DUPFD_CLOEXEC, SYSTEMD_FIRST);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, INHERITED_STDIN);
		close(null);
	}
	return fd;
}

static enum err inherit(const struct config *c, int *fd, struct error *e)
{
	struct sockaddr_storage address = {0};
	socklen_t len = sizeof address;
	if (systemd_passed_one() && is_listener(SYSTEMD_FIRST))
		*fd = SYSTEMD_FIRST;
	else if (is_listener(INHERITED_STDIN))
		*fd = take_stdin();
	else
		return error_set(e, ERR_CONFIG,
		        "nothing to listen on: set listen, or pass a socket as systemd or spawn-fcgi do");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (*fd < 0 || fcntl(*fd, F_SETFD, FD_CLOEXEC) < 0 || getsockname(*fd, (struct sockaddr *)&address, &len) < 0)
		return error_set(e, ERR_IO, "the inherited socket: %s", strerror(errno));
	return check_address(c, &address, e);
}

/* ---- unix ---- */

static enum err check_socket(const struct sockaddr_un *address, bool *exists, struct error *e)
{
	struct stat st;
	*exists = lstat(address->sun_path, &st) == 0; /* if this fails, bind reports why */
	if (*exists && !S_ISSOCK(st.st_mode))
		return error_set(e, ERR_CONFIG, "listen: %.100s exists and is not a socket", address->sun_path);
	return ERR_OK;
}

/* Removes a socket that a dead process left behind, but not one that somebody listens on. */
static enum err remove_left_over(const struct sockaddr_un *address, struct error *e)
{
	bool exists;
	enum err err = check_socket(address, &exists, e);
	if (err || !exists)
		return err;
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return error_set(e, ERR_IO, "socket: %s", strerror(errno));
	/* EAGAIN means a full queue: somebody is listening, slowly. */
	bool refused = connect(probe, (const struct sockaddr *)address, sizeof *address) < 0 && errno == ECONNREFUSED;
	close(probe);
	if (!refused)
		return error_set(e, ERR_IO, "listen: another process listens on %.100s", address->sun_path);
	unlink(address->sun_path);
	return ERR_OK;
}

/* (gid_t)-1, which changes nothing, for an empty name. */
static enum err find_group(const char *name, gid_t *id, struct error *e)
{
	struct group group, *found = NULL;
	char room[4096];
	*id = (gid_t)-1;
	if (!*name)
		return ERR_OK;
	if (getgrnam_r(name, &group, room, sizeof room, &found) != 0 || !found)
		return error_set(e, ERR_CONFIG, "listen_group: there is no group \"%.60s\"", name);
	*id = group.gr_gid;
	return ERR_OK;
}

static enum err set_group(const char *path, const char *name, struct error *e)
{
	gid_t id;
	enum err err = find_group(name, &id, e);
	/* Only if asked for: the systemd unit's filter of system calls refuses chown. */
	if (!err && id != (gid_t)-1 && chown(path, (uid_t)-1, id) < 0)
		err = error_set(e, ERR_IO, "listen_group: %s", strerror(errno));
	return err;
}

static enum err make_address(const char *path, struct sockaddr_un *address, struct error *e)
{
	size_t len = strlen(path);
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (len >= sizeof address->sun_path)
		return error_set(
		        e, ERR_CONFIG, "listen: the path is longer than %zu bytes", sizeof address->sun_path - 1);
	memcpy(address->sun_path, path, len);
	return ERR_OK;
}

static enum err bind_unix(const struct config *c, int fd, struct error *e)
{
	struct sockaddr_un address;
	enum err err = make_address(c->listen, &address, e);
	if (!err)
		err = remove_left_over(&address, e);
	if (err)
		return err;
	/* Nobody may connect before group and mode are set. No other threads exist yet that umask could disturb. */
	mode_t mask = umask(0777);
	int failed = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ? errno : 0;
	umask(mask);
	if (failed)
		return error_set(e, ERR_IO, "listen: %.100s: %s", c->listen, strerror(failed));
	err = set_group(c->listen, c->listen_group, e);
	if (!err && chmod(c->listen, (mode_t)c->listen_mode) < 0)
		err = error_set(e, ERR_IO, "listen_mode: %s", strerror(errno));
	if (err) /* while its mode is 0, remove_left_over cannot see that nobody listens */
		unlink(c->listen);
	return err;
}

/* TCP */

static enum err resolve(const char *listen, struct sockaddr_storage *address, socklen_t *len, struct error *e)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
	char host[256];
	const char *colon = strrchr(listen, ':'), *start = listen;
	size_t n = colon ? (size_t)(colon - listen) : 0;
	if (!colon || n >= sizeof host)
		return error_set(e, ERR_CONFIG, "listen: \"%.100s\" is neither a path nor host:port", listen);
	if (listen[0] == '[' && listen[n - 1] == ']') {
		start++;
		n -= 2;
	}
	memcpy(host, start, n);
	host[n] = 0;
	int failed = getaddrinfo(n ? host : NULL, colon + 1, &hints, &found);
	if (failed)
		return error_set(e, ERR_CONFIG, "listen: %.100s: %s", listen, gai_strerror(failed));
	memcpy(address, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	freeaddrinfo(found);
	return ERR_OK;
}

static enum err bind_tcp(
        const char *listen, int fd, const struct sockaddr_storage *address, socklen_t len, struct error *e)
{
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)address, len) < 0)
		return error_set(e, ERR_IO, "listen: %.100s: %s", listen, strerror(errno));
	return ERR_OK;
}

/* A unix socket's address is no more than its family. */
static enum err find_address(const struct config *c, struct sockaddr_storage *address, socklen_t *len, struct error *e)
{
	*address = (struct sockaddr_storage){.ss_family = AF_UNIX};
	*len = 0;
	enum err err = strchr(c->listen, '/') ? ERR_OK : resolve(c->listen, address, len, e);
	return err ? err : check_address(c, address, e);
}

static enum err make_socket(const struct config *c, int *fd, struct error *e)
{
	struct sockaddr_storage address;
	socklen_t len;
	enum err err = find_address(c, &address, &len, e);
	if (err)
		return err;
	*fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return error_set(e, ERR_IO, "listen: socket: %s", strerror(errno));
	if (address.ss_family == AF_UNIX)
		err = bind_unix(c, *fd, e);
	else
		err = bind_tcp(c->listen, *fd, &address, len, e);
	if (!err && listen(*fd, (int)c->listen_backlog) < 0)
		err = error_set(e, ERR_IO, "listen: %s", strerror(errno));
	return err;
}

enum err front_listen(const struct config *c, int *fd, struct error *e)
{
	*fd = -1;
	enum err err = *c->listen ? make_socket(c, fd, e) : inherit(c, fd, e);
	if (err && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return err;
}

enum err front_check_listen(const struct config *c, struct error *e)
{
	struct sockaddr_storage address;
	struct sockaddr_un path;
	socklen_t len;
	gid_t group;
	bool exists;
	enum err err = find_group(c->listen_group, &group, e);
	if (!err && *c->listen)
		err = find_address(c, &address, &len, e);
	if (err || !*c->listen || address.ss_family != AF_UNIX)
		return err;
	err = make_address(c->listen, &path, e);
	if (!err)
		err = check_socket(&path, &exists, e);
	return err ? err : folder_check(c->listen, "listen", e);
}
