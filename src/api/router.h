/* SPDX-License-Identifier: Apache-2.0 */
/* One table of routes: path, methods, handler. */
#ifndef API_ROUTER_H
#define API_ROUTER_H

#include "front/exchange.h"

/* Answers or parks x. Unknown path: 404; wrong method: 405 with Allow; OPTIONS: preflight. */
void router_handle(struct exchange *x);

/* The handlers, grouped by file. Each answers or parks the exchange. */
void symbolicate_v5_handle(struct exchange *x); /* json.c */
void symbolicate_v4_handle(struct exchange *x);
void symbolicate_text_handle(struct exchange *x); /* text.c */
void source_handle(struct exchange *x);           /* source.c */
void asm_handle(struct exchange *x);              /* asm.c */
void upload_ranges_handle(struct exchange *x);    /* upload.c */
void upload_returnpads_handle(struct exchange *x);
void symbols_show_handle(struct exchange *x); /* symbols.c */
void symbols_remove_handle(struct exchange *x);
void symbols_list_handle(struct exchange *x);
void cache_delete_handle(struct exchange *x); /* cache.c */
void sym_zip_handle(struct exchange *x);      /* sym_zip.c */
void auth_info_handle(struct exchange *x);
void sym_put_handle(struct exchange *x);  /* sym_put.c */
void missing_handle(struct exchange *x);  /* missing.c */
void key_handle(struct exchange *x);      /* key.c */
void sym_get_handle(struct exchange *x);  /* sym_get.c */
void file_put_handle(struct exchange *x); /* file_put.c */
void file_get_handle(struct exchange *x); /* file_get.c */
void buildid_get_handle(struct exchange *x);
void heartbeat_handle(struct exchange *x); /* status.c */
void lbheartbeat_handle(struct exchange *x);
void version_handle(struct exchange *x);
void broken_handle(struct exchange *x);
void metrics_handle(struct exchange *x);

#endif
