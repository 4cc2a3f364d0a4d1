/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbfile/build_id.h"

bool place_by_build_id(char out[PATH_MAX], const char *dir, const uint8_t *id, size_t len)
{
	char hex[BUILD_ID_HEX + 1];
	build_id_hex(hex, id, len);
	return snprintf(out, PATH_MAX, "%s/.build-id/%.2s/%s.debug", dir, hex, hex + 2) < PATH_MAX;
}

void place_directory(char out[PATH_MAX], const char *path)
{
	char *real = realpath(path, NULL);
	int len = real ? (int)(basename(real) - real) : 0;
	snprintf(out, PATH_MAX, "%.*s", len, real ? real : "");
	free(real);
}
