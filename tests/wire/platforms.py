# SPDX-License-Identifier: Apache-2.0
"""Programs of Windows and macOS, made on the spot by clang, lld and LLVM's tools: the same functions as CodeView and as DWARF."""

import glob
import os
import random
import re
import shutil
import subprocess

FILES, FUNCTIONS = 3, 30
WINDOWS = {"x64": "x86_64", "x86": "i686", "arm64": "aarch64"}
MAC = ("arm64", "x86_64")


def version_of(path):
    return int(re.search(r"/llvm-(\d+)/", path)[1])


def tool(name):
    """The program of the newest LLVM that is here."""
    found = max(glob.glob(f"/usr/lib/llvm-*/bin/{name}"), key=version_of, default=shutil.which(name))
    assert found, f"{name} is not installed: tests/tools/install_packages.sh check"
    return found


def call(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **options).stdout


def header():
    """Classes, templates, namespaces, and functions that are inlined in each other."""
    text = '#pragma once\nextern "C" volatile int sink;\n'
    for k in range(4):
        text += f"""namespace n{k} {{
template <typename T, int N> struct Pile {{ T a[N]; int n;
  __attribute__((always_inline)) inline void push(T t) {{
    if (n < N)
      a[n++] = t;
  }}
  inline T top() const {{
    return n ?
      a[n-1] : T();
  }}
}};
static inline int leaf{k}(int a, int b) {{
  int q = a * {k + 3};
  if (q > b)
    q -= b * 3;
  sink = q;
  return q ^ a;
}}
inline int mid{k}(int a, const char *s, unsigned long long z) {{
  int t = leaf{k}(a, (int)z);
  t += leaf{k}(t, a) + s[t & 1];
  return t;
}}
}}
"""
    return text + "".join(f"int m{m}_f{i}(int a, const char *s);\n" for m in range(FILES) for i in range(FUNCTIONS))


def source(m, draw):
    text = '#include "all.h"\n'
    for i in range(FUNCTIONS):
        k = draw.randrange(4)
        own = i % 7 == 6  # local, and called by a global one
        text += f"""{"static __attribute__((noinline)) " if own else ""}int {"l" if own else ""}m{m}_f{i}(int a, const char *s)
{{
  n{k}::Pile<{draw.choice(["int", "long long", "short", "char"])}, {draw.randrange(2, 9)}> p;
  p.n = 0;
  for (int i = 0; i < (a & 7); i++) {{
    p.push(n{k}::mid{k}(a + i, s, i));
    if (a & {1 << draw.randrange(5)})
      a += n{(k + 1) % 4}::leaf{(k + 1) % 4}(i, a);
    else
      sink = a;
  }}
  a ^= (int)p.top();
  return a;
}}
"""
        if own:
            text += f"int m{m}_f{i}(int a, const char *s) {{ return lm{m}_f{i}(a + 1, s); }}\n"
    return text


class Platforms:
    """folder: NAME.exe with NAME.pdb and no DWARF, NAME-both.exe with NAME-both.pdb and
    DWARF, NAME-dwarf.exe with DWARF alone, for each machine of Windows;
    mac-ARCH, mac-ARCH.dSYM, and mac-fat of the debug data of both."""

    def __init__(self, folder, seed=3):
        self.folder = str(folder)
        draw = random.Random(seed)
        self.write("all.h", header())
        for m in range(FILES):
            self.write(f"m{m}.cc", source(m, draw))
        calls = "".join(f"  a += m{m}_f{i}(a, s);\n" for m in range(FILES) for i in range(FUNCTIONS))
        self.write("main.cc", f'#include "all.h"\nextern "C" {{ volatile int sink; int _fltused; }}\n'
                   f'extern "C" int start() {{ const char *s = "xy"; int a = 0;\n{calls}  return a; }}\n')
        self.names = [*(f"m{m}" for m in range(FILES)), "main"]
        for machine, target in WINDOWS.items():
            self.windows(machine, target, machine, ["-gcodeview"])
            self.windows(machine, target, f"{machine}-both", ["-gcodeview", "-gdwarf-4"])
        for arch in MAC:
            self.mac(arch)
        self.run(tool("llvm-lipo"), "-create", "-output", "mac-fat", *(self.dwarf(arch) for arch in MAC))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)

    def run(self, *command):
        return call(*command, cwd=self.folder)

    def compile(self, target, suffix, options):
        for name in self.names:
            self.run("clang", "-target", target, "-O2", "-g", *options, "-ffreestanding", "-fno-stack-protector", "-fno-exceptions",
                     "-fno-rtti", "-c", f"{name}.cc", "-o", f"{name}{suffix}")
        return [f"{name}{suffix}" for name in self.names]

    def windows(self, machine, target, name, options):
        objects = self.compile(f"{target}-pc-windows-msvc", f"-{name}.obj", [*options, "-mno-stack-arg-probe", "-ffunction-sections"])
        link = [tool("lld-link"), "/nologo", "/opt:ref,noicf", f"/machine:{machine}", "/nodefaultlib", "/entry:start", "/subsystem:console"]
        self.run(*link, "/debug:full", f"/out:{name}.exe", f"/pdb:{name}.pdb", *objects)
        if "-gdwarf-4" in options:
            self.run(*link, "/debug:dwarf", f"/out:{machine}-dwarf.exe", *objects)

    def mac(self, arch):
        objects = self.compile(f"{arch}-apple-macos11", f"-{arch}.o", ["-gdwarf-4"])
        self.run(tool("ld64.lld"), "-arch", arch, "-platform_version", "macos", "11.0", "11.0", "-e", "_start", "-undefined", "dynamic_lookup",
                 "-o", f"mac-{arch}", *objects)
        self.run(tool("dsymutil"), f"mac-{arch}", "-o", f"mac-{arch}.dSYM")

    def dwarf(self, arch):
        return self.path(f"mac-{arch}.dSYM/Contents/Resources/DWARF/mac-{arch}")
