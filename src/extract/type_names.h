/* SPDX-License-Identifier: Apache-2.0 */
/* What debug entries say about C++ types, spelled as demanglers do: "char const*", "(int, ns::Box<int>&) const". */
#ifndef EXTRACT_TYPE_NAMES_H
#define EXTRACT_TYPE_NAMES_H

#include "extract/function_names.h"

/* Appends the parameters of a function that is declared by die. Nothing: they are not known, as in tables of lines, or
 * there are none. n->no_memory is set if memory is lacking. */
void type_names_parameters(struct names *n, struct buffer *out, const Dwarf_Die *die);
/* Appends the arguments of a template whose instance die is, if it has any. */
void type_names_arguments(struct names *n, struct buffer *out, const Dwarf_Die *die);
/* Appends what a class without a name is called: {lambda(int)} or {unnamed}. */
void type_names_unnamed(struct names *n, struct buffer *out, const Dwarf_Die *die);

#endif
