/* SPDX-License-Identifier: Apache-2.0 */
/* Clang has no macros of its sanitizers, so it gets gcc's. */
#ifndef BASE_SANITIZERS_H
#define BASE_SANITIZERS_H

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#endif
