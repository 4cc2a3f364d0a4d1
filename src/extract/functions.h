/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a unit and the calls inlined into them, each with the addresses of its code. */
#ifndef EXTRACT_FUNCTIONS_H
#define EXTRACT_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "extract/code_map.h"
#include "extract/die_scan.h"

enum {
	NO_NODE = UINT32_MAX,
	INLINE_DEPTH_MAX = 127, /* calls that were inlined more deeply count as part of their caller */
};

/* A function, or a call that was inlined. */
struct code_node {
	const uint8_t *die;
	Dwarf_Attribute origin; /* the entry that it is a copy of; code 0: none */
	uint32_t function;      /* the node of the function that it is in */
	uint32_t parent;        /* NO_NODE: a function itself */
	uint32_t depth, call_line;
	uint64_t call_file;         /* number in the line table */
	uint64_t entry;             /* where a function begins */
	uint64_t active_end;        /* while segments are made */
	struct str name, call_path; /* data NULL: not looked up yet */
};

struct code_piece {
	uint64_t start, end;
	uint32_t node;
};

struct functions {
	struct code_node *nodes; /* a parent comes before its children */
	struct code_piece *pieces;
	size_t node_count, piece_count;
	uint32_t node_cap, piece_cap;
};

/* Fills f, which is cleared or was used before; pieces are sorted by function, address and depth. Functions whose code
 * was discarded are left out. */
enum err functions_read(struct functions *f, const struct die_unit *u, const struct code_map *code, struct error *e);
void functions_release(struct functions *f);

#endif
