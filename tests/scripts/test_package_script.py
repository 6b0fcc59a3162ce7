"""scripts/package with a pretended compiler: what it keeps between two runs, and what it makes anew."""

import pathlib
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
# It has the sources of oneDNN with a file of each kind that is left out.
APT_GET = """#!/bin/sh
case "$*" in
  download*) touch some.deb ;;
  indextargets*) echo "Debian main http://deb.example/debian-security"; echo "Debian main http://deb.example/debian" ;;
  *Dir::Etc::SourceList=*\\ update) ;;
  *Dir::Etc::SourceList=*\\ source\\ onednn=*)
    [ ! -e "$FAKES/no_source" ] || { echo "Get:1 some list"; echo "E: no space left"; exit 100; }
    for word in "$@"; do case $word in Dir::Etc::SourceList=*) cat "${word#*=}" >>"$FAKES/downloads" ;; esac; done
    cpu=onednn-3.7.2+ds/src/cpu
    mkdir -p $cpu/rnn $cpu/reorder $cpu/x64/rnn $cpu/x64/lrn $cpu/x64/prelu $cpu/x64/shuffle
    for name in rnn/a x64/rnn/a x64/lrn/a x64/prelu/a x64/shuffle/a ref_lrn ref_prelu ref_shuffle ref_softmax cpu_softmax_list \
      ref_batch_normalization ref_layer_normalization ref_resampling reorder/cpu_reorder_comp_f32_s8 reorder/cpu_reorder_regular_f32_f32; do
      touch $cpu/$name.cpp
    done
    printf 'gemm/*/*_kern_autogen.cpp\\nset(OPT_LEVEL "-O1")\\n' >$cpu/x64/CMakeLists.txt
    printf '    {{f32, f32, 0}, &regular_f32_f32_impl_list_map},\\n    {{f32, s8, 0}, &regular_f32_s8_impl_list_map},\\n' >$cpu/reorder/cpu_reorder.cpp
    ;;
  *) exit 1 ;;
esac
"""
CMAKE = """#!/bin/sh
case "$1 $2" in
  "-G "*) echo "$*" >>"$FAKES/onednn" ;;
  --build\\ */onednn/build) [ ! -e "$FAKES/fails" ] || { echo "one.cpp: an error"; exit 1; } ;;
  --install\\ */onednn/build) mkdir -p "${2%build}installed" ;;
  --preset*) mkdir -p build/package/build ;;
  --build*) "$PWD/build/package/tools/zig-c++" one.cpp >>"$FAKES/compiled" ;;
  --install*) mkdir -p "$4/bin"; mkdir -p "$4/libexec/ddprun"
    for name in bin/ddprun bin/rdzvd libexec/ddprun/train; do echo "$name" >"$4/$name"; chmod +x "$4/$name"; done ;;
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
        for name, text in {"apt-cache": APT_CACHE, "apt-get": APT_GET, "cmake": CMAKE, "ninja": "", "dpkg-source": "", "dpkg": "", "sudo": "exit 1",
                           "uname": "echo x86_64", "python3": PYTHON}.items():
            program = self.fakes / name
            program.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        self.write_version("1.90-1")
        self.home = self.checkout / "build" / "package"

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

    def onednn_builds(self):
        return len((self.fakes / "onednn").read_text().splitlines())

    def downloads(self):
        return len((self.fakes / "downloads").read_text().splitlines())

    def test_onednn_is_compiled_once_until_its_version_the_compiler_or_the_glibc_changes(self):
        self.packs("programs")
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (1, 1))
        self.edit("\nzig_version=", "\nzig_version=1")
        self.packs("programs")
        self.edit("\nglibc=2.28", "\nglibc=2.31")
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (3, 1))
        self.edit("\nonednn_version=3.7.2", "\nonednn_version=3.7.3", "lib/onednn.sh")
        self.packs("programs")
        self.assertEqual((self.onednn_builds(), self.downloads()), (4, 2))

    def test_sources_of_onednn_come_from_the_machines_mirror_without_what_train_does_not_call(self):
        self.packs("programs")
        self.assertRegex((self.fakes / "downloads").read_text(), r"^deb-src \[.*\] http://deb.example/debian trixie main\n$")
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

    def test_sources_that_cannot_be_downloaded_are_reported_with_apts_reason(self):
        (self.fakes / "no_source").touch()
        done = self.package("programs")
        self.assertEqual(done.returncode, 1)
        self.assertIn("package: could not download the sources of oneDNN: E: no space left", done.stderr)
        (self.fakes / "no_source").unlink()
        self.packs("programs")

    def test_a_package_replaces_those_of_its_kind_and_leaves_the_others(self):
        dist = self.home / "dist"
        dist.mkdir(parents=True)
        old = {"wheel": "ddprun-0.0.1-py3-none-manylinux_2_17_x86_64.whl", "deb": "ddprun-rdzvd_0.0.1-1_amd64.deb",
               "tarball": "ddprun-0.0.1-linux-x86_64.tar.zst"}
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
