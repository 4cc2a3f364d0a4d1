/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job whose process gets no more memory. libelf and libdw take that for malformed data, or do not notice:
 * what they say from then on is poorer than what the file says, or they crash. */
#ifndef HELPER_MEMORY_H
#define HELPER_MEMORY_H

/* From now on the first allocation that fails, of any thread and library, sends PACKET_END with ERR_NO_MEMORY to the
 * job's socket, and ends the process. -1: none does. With another C library than glibc, or a sanitizer, none does. */
void memory_ends_job(int socket);

#endif
