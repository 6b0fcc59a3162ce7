"""scripts/package with a pretended compiler: what it keeps between two runs, and what it makes anew."""

import hashlib
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

APT_CACHE = """#!/bin/sh
case $1 in
  depends) echo "  Depends: libfmt9" ;;
  policy) shift; for name in "$@"; do printf '%s:\\n  Candidate: %s\\n' "$name" "$(cat "$FAKES/version")"; done ;;
esac
"""
APT_GET = """#!/bin/sh
case "$*" in
  update*) echo "$APT_CONFIG" >>"$FAKES/updates" ;;
  download*) touch some.deb; echo "$PWD: $* $APT_CONFIG" >>"$FAKES/headers" ;;
  indextargets*) echo "Debian main copy:$FAKES/debian-security"; echo "Debian main copy:$FAKES/mirror" ;;
  *) exit 1 ;;
esac
"""
# It unpacks the sources of oneDNN with a file of each kind that is left out.
DPKG_SOURCE = """#!/bin/sh
set -e
cat "$3" "${3%/*}"/onednn_3.7.2+ds.orig.tar.xz "${3%/*}"/onednn_3.7.2+ds-2.debian.tar.xz >/dev/null
echo "$*" >>"$FAKES/unpacked"
cpu=$4/src/cpu
mkdir -p $cpu/rnn $cpu/reorder $cpu/x64/rnn $cpu/x64/lrn $cpu/x64/prelu $cpu/x64/shuffle
for name in rnn/a x64/rnn/a x64/lrn/a x64/prelu/a x64/shuffle/a ref_lrn ref_prelu ref_shuffle ref_softmax cpu_softmax_list \
  ref_batch_normalization ref_layer_normalization ref_resampling reorder/cpu_reorder_comp_f32_s8 reorder/cpu_reorder_regular_f32_f32; do
  touch $cpu/$name.cpp
done
printf 'gemm/*/*_kern_autogen.cpp\\nset(OPT_LEVEL "-O1")\\n' >$cpu/x64/CMakeLists.txt
printf '    {{f32, f32, 0}, &regular_f32_f32_impl_list_map},\\n    {{f32, s8, 0}, &regular_f32_s8_impl_list_map},\\n' >$cpu/reorder/cpu_reorder.cpp
"""
CMAKE = """#!/bin/sh
case "$1 $2" in
  "-G "*) echo "$*" >>"$FAKES/onednn" ;;
  --build\\ */onednn/build) [ ! -e "$FAKES/fails" ] || { echo "one.cpp: an error"; exit 1; } ;;
  --install\\ */onednn/build) mkdir -p "${2%build}installed" ;;
  --preset*) mkdir -p "$4"; echo "$2 ${4##*/} $5" >>"$FAKES/presets" ;;
  --build*) "${2%/*}/tools/zig-c++" one.cpp >>"$FAKES/compiled"; echo "$4" >>"$FAKES/targets" ;;
  --install*) mkdir -p "$4/bin"; mkdir -p "$4/libexec/ddprun"
    for name in bin/ddprun bin/ddpctl bin/rdzvd libexec/ddprun/train; do echo "$name" >"$4/$name"; chmod +x "$4/$name"; done ;;
esac
"""
# The environment's Python is the real one; its compiler prints what it was asked for.
PYTHON = """#!/bin/sh
[ "$1" = -m ] || exit 0
[ ! -e "$FAKES/no_venv" ] || exit 1
site=$3/lib/python3.11/site-packages/ziglang
mkdir -p "$3/bin" "$site"
printf '#!/bin/sh\\n' >"$3/bin/pip"
printf '#!/bin/sh\\necho "$ZIG_LOCAL_CACHE_DIR: $*"\\n' >"$site/zig"
ln -s "$REAL_PYTHON" "$3/bin/python"
chmod +x "$3/bin/pip" "$site/zig"
"""


class Script(unittest.TestCase):
    """Each test has a checkout of its own, in a folder with letters that the C locale does not have."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout = pathlib.Path(folder.name) / "it's a folder for Zoë"
        self.fakes = pathlib.Path(folder.name) / "fakes"
        self.fakes.mkdir()
        for name in ("scripts", "python"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("CMakeLists.txt", "README.md", "LICENSE", "THIRD_PARTY_NOTICES"):
            shutil.copy(ROOT / name, self.checkout)
        for name, text in {"apt-cache": APT_CACHE, "apt-get": APT_GET, "cmake": CMAKE, "ninja": "", "dpkg-source": DPKG_SOURCE, "dpkg": "", "qemu-aarch64": "", "sudo": "exit 1",
                           "uname": "echo x86_64", "python3": PYTHON}.items():
            program = self.fakes / name
            program.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        self.write_version("1.90-1")
        self.home = self.checkout / "build" / "package"
        self.write_sources("mirror", "archive")

    def write_sources(self, *places, version="3.7.2+ds-2"):
        """The source package of oneDNN in pretended mirrors of Debian, and its checksum in the script."""
        files = {f"onednn_{version.split('-')[0]}.orig.tar.xz": b"oneDNN's own", f"onednn_{version}.debian.tar.xz": b"Debian's patches"}
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        lines = [f"Version: {version}", "Checksums-Sha1:", *(f" {'0' * 40} 12 {name}" for name in files), "Checksums-Sha256:",
                 *(f" {value} 12 {name}" for name, value in sums.items()), "Files:", *(f" {'0' * 32} 12 {name}" for name in files)]
        files[f"onednn_{version}.dsc"] = description = ("\n".join(lines) + "\n").encode()
        for place in places:
            pool = self.fakes / place / "pool" / "main" / "o" / "onednn"
            pool.mkdir(parents=True)
            for name, content in files.items():
                (pool / name).write_bytes(content)
        script = self.checkout / "scripts" / "lib" / "onednn.sh"
        text = re.sub("(?m)^onednn_sha256=[0-9a-f]{64}", f"onednn_sha256={hashlib.sha256(description).hexdigest()}", script.read_text())
        text = re.sub("http://snapshot.debian.org/archive/debian/[0-9]{8}T[0-9]{6}Z", f"copy:{self.fakes}/snapshot", text)
        script.write_text(text.replace("http://archive.debian.org/debian", f"copy:{self.fakes}/archive"))

    def write_version(self, text):
        """Of all header packages."""
        (self.fakes / "version").write_text(text)

    def edit(self, old, new, name="package"):
        script = self.checkout / "scripts" / name
        text = script.read_text()
        self.assertEqual(text.count(old), 1)
        script.write_text(text.replace(old, new))

    def package(self, *words):
        environment = {"PATH": f"{self.fakes}:/usr/bin:/bin", "FAKES": str(self.fakes), "REAL_PYTHON": shutil.which("python3")}
        return subprocess.run([self.checkout / "scripts" / "package", *words], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=environment)

    def packs(self, *words):
        done = self.package(*words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_compiler_runs_with_the_cache_of_the_checkout_whatever_its_path(self):
        self.packs("programs")
        self.assertEqual((self.fakes / "compiled").read_text(), f"{self.home / 'zig-cache'}: c++ -target x86_64-linux-gnu.2.28 one.cpp\n")

    def test_objects_are_kept_until_the_compiler_the_glibc_or_a_header_changes(self):
        self.packs("programs")
        kept = self.home / "build" / "an object"
        kept.touch()
        self.packs("programs")
        self.assertTrue(kept.exists())
        for change in (lambda: self.edit("\nzig_version=", "\nzig_version=1"), lambda: self.edit("\nglibc=2.28", "\nglibc=2.31"),
                       lambda: self.write_version("1.90-2")):
            change()
            self.packs("programs")
            self.assertFalse(kept.exists())
            kept.touch()

    def lines(self, name):
        """What the pretended programs have written down."""
        return (self.fakes / name).read_text().splitlines()

    def test_programs_for_another_architecture_are_made_beside_the_others_with_its_headers(self):
        self.packs("programs")
        self.packs("--arch=aarch64", "programs")
        self.assertEqual(self.lines("compiled")[1], f"{self.home / 'zig-cache'}: c++ -target aarch64-linux-gnu.2.28 one.cpp")
        self.assertEqual(self.lines("presets"), ["portable build ", "portable-aarch64 build "])
        self.assertRegex(self.lines("onednn")[1], "-B .*/aarch64/onednn/build -DCMAKE_TOOLCHAIN_FILE=.*/cmake/PortableToolchainAarch64.cmake ")
        configuration = self.home / "aarch64" / "apt" / "apt.conf"
        self.assertIn('APT::Architecture "arm64";', configuration.read_text())
        own, headers, sysroot = self.lines("headers")
        self.assertRegex(own, r" libprotozero-dev libfmt9 $")  # and no other apt configuration
        self.assertTrue(headers.startswith(f"{self.home / 'aarch64' / 'download'}: download") and headers.endswith(f" {configuration}"), headers)
        self.assertTrue(sysroot.endswith(f" libc6 {configuration}"), sysroot)
        self.assertEqual(self.lines("updates"), [str(configuration)])
        self.assertEqual(self.downloads(), 1)  # of oneDNN's sources
        self.packs("--arch=aarch64", "programs")
        self.assertEqual((len(self.lines("updates")), len(self.lines("headers")), self.onednn_builds()), (1, 3, 2))

    def test_tests_are_compiled_in_a_folder_of_their_own_without_the_programs(self):
        self.packs("--arch=aarch64", "tests")
        self.assertEqual(self.lines("presets"), ["portable-aarch64 tests -DDDPRUN_TESTS=ON"])
        self.assertEqual(self.lines("targets")[-1], "portable_tests")
        self.assertFalse((self.home / "aarch64" / "stage").exists())
        self.assertRegex("\n".join(self.lines("headers")), " catch2 /")

    def test_an_unknown_architecture_is_refused_with_those_that_there_are(self):
        done = self.package("--arch=riscv64")
        self.assertEqual((done.returncode, done.stderr), (2, "package: packages are made for x86_64 and aarch64, not for riscv64\n"))

    def test_the_packages_of_each_architecture_have_a_folder_of_their_own(self):
        for arch in ("aarch64", "x86_64"):
            self.packs(f"--arch={arch}", "wheel")
        for arch, folder in (("aarch64", "aarch64/dist"), ("x86_64", "dist")):
            names = {path.name.split("-py3-", 1)[1] for path in (self.home / folder).iterdir()}
            self.assertEqual(names, {f"none-manylinux_2_28_{arch}.whl", "none-any.whl"})

    def onednn_builds(self):
        return len(self.lines("onednn"))

    def downloads(self):
        return len(self.lines("unpacked"))

    def test_onednn_is_compiled_once_until_its_version_the_compiler_or_the_glibc_changes(self):
        self.packs("programs")
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (1, 1))
        self.edit("\nzig_version=", "\nzig_version=1")
        self.packs("programs")
        self.edit("\nglibc=2.28", "\nglibc=2.31")
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (3, 1))
        self.edit("\nonednn_version=3.7.2+ds-2", "\nonednn_version=3.7.2+ds-3", "lib/onednn.sh")
        shutil.rmtree(self.fakes / "mirror")
        self.write_sources("mirror", version="3.7.2+ds-3")
        (self.fakes / "dpkg-source").write_text(DPKG_SOURCE.replace("+ds-2.", "+ds-3."))
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (4, 2))

    def test_sources_of_onednn_are_kept_without_what_train_does_not_call(self):
        self.packs("programs")
        self.assertEqual({path.name for path in (self.home / "onednn").iterdir()}, {"build", "build.log", "installed", "source-3.7.2+ds-2"})
        source, = (self.home / "onednn").glob("source-*")
        left = {path.stem for path in (source / "src" / "cpu").rglob("*.cpp")}
        self.assertEqual(left, {"cpu_softmax_list", "ref_batch_normalization", "cpu_reorder", "cpu_reorder_regular_f32_f32"})
        self.assertEqual((source / "src/cpu/x64/CMakeLists.txt").read_text(), 'gemm/*/*_autogen.cpp\nset(OPT_LEVEL "-O1 -fno-inline")\n')
        self.assertEqual((source / "src/cpu/reorder/cpu_reorder.cpp").read_text(), "    {{f32, f32, 0}, &regular_f32_f32_impl_list_map},\n")

    def test_an_interrupted_build_of_onednn_goes_on_where_it_was(self):
        (self.fakes / "fails").touch()
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"one.cpp: an error\npackage: compiling oneDNN failed \(the text above is the end of .*/onednn/build.log\)\n$")
        kept = self.home / "onednn" / "build" / "an object"
        kept.touch()
        (self.fakes / "fails").unlink()
        self.packs("programs")
        self.assertTrue(kept.exists())
        self.assertEqual(self.downloads(), 1)

    def pool(self, place):
        return self.fakes / place / "pool" / "main" / "o" / "onednn"

    def test_sources_that_a_mirror_has_no_more_or_changed_come_from_debians_archives(self):
        shutil.rmtree(self.fakes / "mirror")
        self.packs("programs")
        shutil.rmtree(self.home / "onednn")
        self.write_sources("mirror")
        (self.pool("mirror") / "onednn_3.7.2+ds.orig.tar.xz").write_text("other bytes")
        self.packs("programs")
        self.assertEqual(self.downloads(), 2)

    def test_sources_that_are_nowhere_are_reported_with_each_reason_and_may_be_brought_by_hand(self):
        orig = self.pool("archive") / "onednn_3.7.2+ds.orig.tar.xz"
        by_hand = self.fakes / orig.name
        orig.rename(by_hand)
        self.pool("mirror").joinpath(orig.name).write_text("other bytes")
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        mismatch = "(Hash Sum mismatch|Undetermined Error)"  # apt's words until 2, and those of 3
        self.assertRegex(done.stderr, rf"package: could not download {re.escape(orig.name)} of the sources of oneDNN; copy:\S*mirror\S* +{mismatch}; "
                         rf"copy:\S*snapshot\S* .*; copy:\S*archive\S* .*; check the network, or put {re.escape(orig.name)} \(SHA-256 [0-9a-f]{{64}}\) "
                         "into build/package/onednn/download; then run this again\n$")
        shutil.copy(by_hand, self.home / "onednn" / "download")
        self.packs("programs")

    def test_sources_that_do_not_unpack_are_reported_with_the_reason(self):
        (self.fakes / "dpkg-source").write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("package: could not unpack onednn_3.7.2+ds-2.dsc: no space left", done.stderr)

    def test_a_package_replaces_those_of_its_kind_and_leaves_the_others(self):
        dist = self.home / "dist"
        dist.mkdir(parents=True)
        old = {"wheel": "ddprun-0.0.1-py3-none-manylinux_2_17_x86_64.whl", "deb": "ddprun-rdzvd_0.0.1-1_amd64.deb",
               "tarball": "ddprun-0.0.1-linux-x86_64.tar.gz"}
        torchrun = "ddprun_torchrun-0.0.1-py3-none-any.whl"
        for name in (*old.values(), torchrun):
            (dist / name).touch()
        self.packs("wheel")
        names = sorted(path.name for path in dist.iterdir())
        self.assertEqual(len(names), 4, names)
        self.assertFalse({old["wheel"], torchrun} & set(names), names)
        self.assertLessEqual({old["deb"], old["tarball"]}, set(names))

    def test_an_environment_that_cannot_be_made_is_reported_with_the_remedy(self):
        (self.fakes / "no_venv").touch()
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("python3 -m venv failed; as root, run: apt-get install --reinstall python3-venv; then run this again\n", done.stderr)

    def test_without_package_lists_the_error_names_the_command(self):
        (self.fakes / "apt-cache").write_text("#!/bin/sh\n")
        (self.fakes / "id").write_text("#!/bin/sh\necho 1000\n")
        (self.fakes / "id").chmod(0o755)
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt has no package lists; as root, run: apt-get update; then run this again\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
