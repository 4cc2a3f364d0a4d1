// SPDX-License-Identifier: Apache-2.0
// Modules that come with the system, which few readers of a stack want to see first.

const NAMES = new RegExp(`^(?:${[
	"ld-(?:linux|musl).*", "lib(?:c|m|dl|rt|pthread|gcc_s|stdc\\+\\+|c\\+\\+|c\\+\\+abi|unwind|resolv|util|nss_.*|ssp)(?:[-.].*)?\\.so.*",
	"lib(?:[alt]|hwa|ub|m)san\\.so.*", "linux-(?:vdso|gate)\\.so.*", "\\[?vdso\\]?", "\\[?kernel.*\\]?", "vmlinux.*",
	"app_process(?:32|64)?", "libart\\.so", "libandroid_runtime\\.so", "libbinder\\.so", "linker(?:64)?",
	"(?:nt|w?kernel(?:base|32)|user32|win32u|gdi32|combase|ole32|ucrtbase|msvc.*|vcruntime.*|rpcrt4|ws2_32|wow64.*|w?ntdll|wkernel.*|wuser32|wwin32u)(?:dll)?\\.(?:dll|pdb)",
	"dyld(?:_.*)?", "libsystem_.*\\.dylib", "libobjc.*\\.dylib", "libdispatch\\.dylib", "libc\\+\\+.*\\.dylib",
	"CoreFoundation", "Foundation", "AppKit", "UIKit(?:Core)?", "HIToolbox", "QuartzCore", "GraphicsServices", "CFNetwork",
].join("|")})$`, "i");

const FOLDERS = /^(?:\/lib(?:32|64)?\/|\/usr\/lib(?:32|64|exec)?\/|\/System\/Library\/|\/apex\/|\/system\/(?:lib|framework)|[a-z]:\\windows\\)/i;

// Of the module of a frame, whose path the text may tell.
export function isSystem({ module = "", path = module }) {
	return NAMES.test(path.slice(path.search(/[^/\\]*$/))) || NAMES.test(module) || FOLDERS.test(path);
}
