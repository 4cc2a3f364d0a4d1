/* SPDX-License-Identifier: Apache-2.0 */
/* The process: settings, signals, and the order in which its parts start and stop. */
#include <config.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "api/missing.h"
#include "api/router.h"
#include "api/status.h"
#include "base/account.h"
#include "base/cgroup.h"
#include "base/config.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sandbox.h"
#include "cache/memcached.h"
#include "elf/elf_source.h"
#include "elf/source_code.h"
#include "front/front.h"
#include "keys/auth.h"
#include "api/services.h"
#include "objects/bucket.h"
#include "objects/store.h"
#include "objects/transfer.h"

/* The settings in force. Older ones live until the end: requests and services may still read them, and SIGHUP is rare.
 */
struct settings {
	struct config config;
	struct settings *older;
};

struct process {
	int argc;
	char **argv;
	struct settings *settings;
	struct front *front;
	struct extractors *extractors; /* NULL: no source is of executables */
};

/* ---- settings ---- */

/* Why the server does not start. The exit code tells systemd whether to try again: not while the settings are wrong. */
static int complain(const struct error *e)
{
	log_outcome(LOG_LEVEL_ERROR, "start", e->text);
	return e->code == ERR_CONFIG ? EX_CONFIG : EXIT_FAILURE;
}

static void free_settings(struct process *p)
{
	while (p->settings) {
		struct settings *s = p->settings;
		p->settings = s->older;
		config_release(&s->config);
		free(s);
	}
}

static struct settings *new_settings(struct process *p, struct error *e)
{
	struct settings *s = calloc(1, sizeof *s);
	if (s)
		s->older = p->settings;
	else
		no_memory(e);
	return s;
}

/* "source: WHY" becomes "source URL (line N): WHY". */
static enum err name_source(const struct config *c, unsigned source, struct error *e)
{
	static const char start[] = "source: ";
	char shown[CONFIG_SOURCE_SIZE];
	struct error why = *e;
	const char *text = why.text;
	if (strncmp(text, start, sizeof start - 1) == 0)
		text += sizeof start - 1;
	return error_set(e, why.code, "source %s: %s", config_show_source(shown, c, source), text);
}

static enum err check_sources(const struct config *c,
        enum err (*check)(const struct config *c, const char *url, struct error *e), struct error *e)
{
	for (unsigned i = 0; i < c->sources.count; i++)
		if (check(c, c->sources.items[i], e))
			return name_source(c, i, e);
	return ERR_OK;
}

/* Checks of other modules that config_check cannot do. */
static enum err check_settings(const struct config *c, struct error *e)
{
	bool bad = config_check(c, e) || transfer_check_settings(c, e) || source_code_check(c, e) ||
	           check_sources(c, bucket_check_url, e) || mc_check(c, e) ||
	           store_check(c->symbfile_store, "symbfile_store", false, c, e) ||
	           store_check(c->sym_store, "sym_store", false, c, e);
	return bad ? e->code : ERR_OK;
}

/* What --check-config checks besides: whether this user can use everything on this machine that the settings name. The
 * server starts without this check: a directory may be mounted later. */
static enum err check_machine(const struct config *c, struct error *e)
{
	bool bad = front_check_listen(c, e) || log_check(c->log_file, e) || check_sources(c, bucket_check_local, e) ||
	           elf_sources_check(c, e) || store_check(c->symbfile_store, "symbfile_store", true, c, e) ||
	           store_check(c->sym_store, "sym_store", true, c, e);
	return bad ? e->code : ERR_OK;
}

/* Reads the file and the flags anew. */
static enum err read_settings(const struct process *p, struct config *c, unsigned *actions, struct error *e)
{
	enum err err = config_init(c, e);
	if (!err)
		err = config_parse_args(c, p->argc, p->argv, actions, e);
	if (!err)
		config_fit_memory(c, machine_memory(""));
	return err;
}

/* ---- signals ---- */

/* Blocks signals in every thread started later: a signal that interrupts libfcgi cuts a reply short. Signals that mean
 * a crash are not blocked. */
static void block_signals(void)
{
	static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t set;
	sigfillset(&set);
	for (unsigned i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
		sigdelset(&set, crashes[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Undoes what libfcgi installed: signals are waited for, not handled, and a peer that went away is an error of write.
 */
static void reset_handlers(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, SIG_DFL);
}

/* For SIGHUP. Nothing changes if anything is wrong with the new settings: the log is opened last, and after that
 * nothing can fail. */
static enum err reload(struct process *p, char *names, size_t size, struct error *e)
{
	struct config fresh = {0};
	struct settings *next = NULL;
	struct auth_keys *keys = NULL;
	unsigned actions;
	enum err err = read_settings(p, &fresh, &actions, e);
	if (!err)
		err = check_settings(&fresh, e);
	if (err)
		goto out;
	next = new_settings(p, e);
	err = next ? config_copy(&next->config, &p->settings->config) : ERR_NO_MEMORY;
	if (err)
		goto out;
	config_reload(&next->config, &fresh, names, size);
	keys = auth_read(next->config.keys_file, e);
	err = keys ? log_open(next->config.log_file, next->config.log_level, e) : e->code;
	if (err)
		goto out;
	auth_use(keys);
	keys = NULL;
	p->settings = next;
	next = NULL;
	front_set_config(p->front, &p->settings->config);
out:
	if (next)
		config_release(&next->config);
	free(next);
	auth_keys_free(keys);
	config_release(&fresh);
	return err;
}

static void handle_hangup(struct process *p)
{
	struct error e = {.code = ERR_NO_MEMORY, .text = "out of memory"};
	char names[512] = "";
	if (reload(p, names, sizeof names, &e))
		log_event(LOG_LEVEL_ERROR, "reload", "nothing changed: %s", e.text);
	else if (*names)
		log_event(LOG_LEVEL_WARNING, "reload", "done, but these settings need a restart: %s", names);
	else
		log_event(LOG_LEVEL_INFO, "reload", "done");
}

/* Returns when a signal ends the process. */
static void wait_for_end(struct process *p)
{
	static const int waited[] = {SIGTERM, SIGINT, SIGHUP};
	sigset_t set;
	int signal_number;
	sigemptyset(&set);
	for (unsigned i = 0; i < sizeof waited / sizeof waited[0]; i++)
		sigaddset(&set, waited[i]);
	for (;;) {
		if (sigwait(&set, &signal_number) != 0)
			continue;
		if (signal_number != SIGHUP)
			return;
		handle_hangup(p);
	}
}

/* ---- run ---- */

static enum err start_process(struct process *p, struct error *e)
{
	const struct config *c = &p->settings->config;
	int fd;
	if (front_listen(c, &fd, e))
		return e->code;
	if (services_start(c, p->extractors, e)) {
		close(fd);
		return e->code;
	}
	if (status_start(e) || missing_start(e))
		close(fd);
	else
		p->front = front_start(c, fd, router_handle, e);
	if (p->front)
		return ERR_OK;
	missing_stop();
	status_stop();
	services_stop();
	return e->code;
}

/* Before there is a second thread: a filter holds for the threads that its thread starts. */
static enum err enter_sandbox(const struct config *c, struct error *e)
{
	if (c->seccomp == SANDBOX_OFF || !sandbox_enter(e))
		return ERR_OK;
	if (c->seccomp == SANDBOX_ON)
		return e->code;
	log_event(LOG_LEVEL_INFO, "start", "system calls are not filtered: %s", e->text);
	return ERR_OK;
}

/* Before the sandbox, in which no program can be started. */
static enum err start_extractors(struct process *p, struct error *e)
{
	const struct config *c = &p->settings->config;
	if (!elf_sources_wanted(c))
		return ERR_OK;
	return extractors_start(
	        &p->extractors, NULL, (unsigned)c->executables_parallel, (unsigned)c->client_ipv6_prefix, e);
}

static int serve(struct process *p)
{
	struct error e;
	const struct config *c = &p->settings->config;
	malloc_begin();
	crash_catch();
	if (log_open(c->log_file, c->log_level, &e) || start_extractors(p, &e) || enter_sandbox(c, &e) ||
	        start_process(p, &e))
		return complain(&e);
	log_gather();
	reset_handlers();
	log_event(LOG_LEVEL_INFO, "start", "symbolicated %s, process %ld", FULL_VERSION, (long)getpid());
	wait_for_end(p);
	log_event(LOG_LEVEL_INFO, "stop", "finishing running requests");
	unsigned cut = front_stop(p->front, p->settings->config.shutdown_timeout);
	if (cut) {
		log_event(LOG_LEVEL_WARNING, "stop", "%u requests were cut off", cut);
		/* The services still work for those requests and cannot be stopped. */
		log_flush();
		_exit(EXIT_SUCCESS);
	}
	missing_stop();
	status_stop();
	services_stop();
	extractors_stop(p->extractors);
	log_gather_end();
	const char *charged = account_unbalanced();
	if (charged)
		log_event(LOG_LEVEL_ERROR, "account", "%lld bytes of %s were not given back", (long long)account_used(),
		        charged);
	log_event(LOG_LEVEL_INFO, "stop", "done");
	return EXIT_SUCCESS;
}

/* Of sources with a password that the file has, not a flag. */
static void warn_of_secrets(const struct config *c)
{
	char shown[CONFIG_SOURCE_SIZE], text[CONFIG_SOURCE_SIZE + 128];
	if (c->read_by_all && c->source_headers.count)
		log_outcome(LOG_LEVEL_WARNING, "check",
		        "source_header may be a secret, and anyone on this machine can read the file: use chmod 0640");
	for (unsigned i = 0; c->read_by_all && i < c->sources.count; i++) {
		if (!c->sources.lines[i] || !config_source_is_secret(c, i))
			continue;
		snprintf(text, sizeof text,
		        "source %s has a password, and anyone on this machine can read the file: use chmod 0640",
		        config_show_source(shown, c, i));
		log_outcome(LOG_LEVEL_WARNING, "check", text);
	}
}

/* What each answers now. One that does not is no mistake in the settings. */
static void ask_sources(const struct config *c)
{
	char text[CONFIG_SOURCE_SIZE + 320], shown[CONFIG_SOURCE_SIZE];
	struct error e = {.code = ERR_NO_MEMORY, .text = "out of memory"};
	struct bucket_sources *sources = bucket_sources_of(c, &c->sources, &e);
	struct bucket_client *client = sources ? bucket_client_new(sources) : NULL;
	for (unsigned i = 0; i < c->sources.count; i++) {
		enum err err = client ? bucket_probe(client, i, &e) : e.code;
		snprintf(text, sizeof text, "source %s %s%s", config_show_source(shown, c, i),
		        err ? "does not answer as it should: " : "answers", err ? e.text : "");
		log_outcome(err ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "check", text);
	}
	bucket_client_free(client);
	bucket_sources_free(sources);
}

static int check_and_report(const struct config *c, bool asks)
{
	struct error e;
	if (check_settings(c, &e) || auth_load(c->keys_file, &e) || check_machine(c, &e)) {
		complain(&e);
		return EXIT_FAILURE;
	}
	warn_of_secrets(c);
	if (asks)
		ask_sources(c);
	log_outcome(LOG_LEVEL_INFO, "check", "the settings are valid");
	return EXIT_SUCCESS;
}

/* Handles flags that only print a text; false if there is none. */
static bool print_actions(unsigned actions)
{
	if (actions & CONFIG_HELP)
		config_print_usage(stdout);
	else if (actions & CONFIG_VERSION)
		puts("symbolicated " FULL_VERSION);
	else if (actions & CONFIG_PRINT_MARKDOWN)
		config_print_markdown(stdout);
	else if (actions & CONFIG_PRINT_EXAMPLE)
		config_print_example(stdout);
	else
		return false;
	return true;
}

/* Descriptors 0 to 2 are never free, so that no socket gets a number that something writes to. */
static void keep_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			_exit(EXIT_FAILURE);
}

/* Known before the settings are, in which there may be a mistake. */
static bool has_flag(int argc, char **argv, const char *flag)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], flag) == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	struct process p = {.argc = argc, .argv = argv};
	struct error e;
	unsigned actions = 0;
	int code = EXIT_SUCCESS;
	keep_standard_descriptors();
	if (has_flag(argc, argv, "--check-config") && !has_flag(argc, argv, "--json"))
		log_plainly();
	p.settings = new_settings(&p, &e);
	if (!p.settings || read_settings(&p, &p.settings->config, &actions, &e))
		code = complain(&e);
	else if (print_actions(actions))
		code = fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	else if (actions & CONFIG_CHECK)
		code = check_and_report(&p.settings->config, !(actions & CONFIG_JSON));
	else if (check_settings(&p.settings->config, &e))
		code = complain(&e);
	else {
		block_signals();
		code = serve(&p);
	}
	free_settings(&p);
	return code;
}
