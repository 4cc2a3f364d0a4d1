/* SPDX-License-Identifier: Apache-2.0 */
/* What a function itself is called, within a name that has more: scopes, arguments of templates, parameters. */
#ifndef EXTRACT_OWN_NAME_H
#define EXTRACT_OWN_NAME_H

#include <stdbool.h>

#include "base/str.h"

/* turn of "int ns::Widget::turn<int>(int)", operator() of "pay(int)::{lambda(int)#1}::operator()(int) const", run of
 * "<r::Widget as r::Shape>::run::<i32>", closure of "main::{closure#0}". Empty: it cannot be told. */
struct str own_name(struct str name);

#endif
