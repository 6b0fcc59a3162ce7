# shellcheck shell=bash
# oneDNN for scripts/package: Debian's source package, compiled by the compiler of the packages into one static library with
# what train calls and nothing else (docs/decisions/0014-portable-programs.md). Needs $home and common.sh.
onednn_version=3.7.2+ds-2
onednn_suite=trixie  # Debian 13; that of Debian 12 is older
onednn_primitives='BATCH_NORMALIZATION;CONVOLUTION;DECONVOLUTION;INNER_PRODUCT;MATMUL;POOLING;REORDER'

# The mirror of Debian that this machine's apt uses.
debian_mirror() {
  apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(SITE)' 'Created-By: Packages' 2>/dev/null |
    sed -n '/-security$/d; s/^Debian main //p' | sort -u | head -n 1
}

# Runs apt-get with the sources of $onednn_suite and lists of its own: needs no root and changes nothing of this machine's.
apt_of_sources() {
  apt-get -q -o Dir::Etc::SourceList="$home/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$home/apt/lists" -o Dir::Cache="$home/apt/cache" -o APT::Sandbox::User= "$@" 2>&1
}

# get_onednn_source FOLDER
get_onednn_source() {
  local mirror error
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || fail "the sources of oneDNN $onednn_version come from Debian's mirror, and apt here uses none"
  say "downloading the sources of oneDNN $onednn_version into build/package/onednn"
  rm -rf "$home/onednn" "$home/apt"
  mkdir -p "$home/onednn" "$home/apt/lists/partial" "$home/apt/cache/archives/partial"
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $onednn_suite main" >"$home/apt/sources.list"
  error=$(apt_of_sources update) && error=$(cd "$home/onednn" && apt_of_sources source "onednn=$onednn_version") ||
    fail "could not download the sources of oneDNN: $(grep -m 1 '^E: ' <<<"$error" || tail -n 1 <<<"$error")$(disk_hint "$home" '600 MB')"
  rm -rf "$home/apt"
  leave_out_unused
  inline_less
  mv "$home"/onednn/onednn-*/ "$1"
}

# Removes what no primitive of train needs, which is a quarter of the time to compile: other primitives, and copies between
# types that train does not have (it has f32 and bf16). A program that needs one of them does not link.
leave_out_unused() {
  cd "$home"/onednn/onednn-*/src/cpu
  rm {rnn,x64/{rnn,lrn,prelu,shuffle}}/*.cpp
  find . -name '*_normalization*.cpp' ! -name '*batch_normalization*' ! -name '*_list.cpp' -delete
  find . -name '*_softmax*.cpp' ! -name '*_list.cpp' -delete
  find . -name '*_resampling*.cpp' ! -name '*_list.cpp' -delete
  rm ref_{lrn,prelu,shuffle}.cpp
  sed -i -E '/^ *\{\{.*\b(f4_e2m1|f4_e3m0|e8m0|f8_e5m2|f8_e4m3|f16|s32|s8|u8|s4|u4)\b.*impl_list_map/d' reorder/cpu_reorder.cpp
  find reorder -name '*_comp_*.cpp' -delete
  find reorder -regex '.*_\(f16\|fp4\|fp8\|s32\|s8\|u8\|s4\|u4\)\.cpp' -delete
  cd "$OLDPWD"
}

# Functions that are thousands of calls of an assembler: with each call inlined clang needs minutes for one of them, and makes it
# more than twice as large.
inline_less() {
  sed -i -e 's/_kern_autogen\.cpp/_autogen.cpp/' -e 's/set(OPT_LEVEL "-O1")/set(OPT_LEVEL "-O1 -fno-inline")/' \
    "$home"/onednn/onednn-*/src/cpu/x64/CMakeLists.txt
}

# Leaves libdnnl.a and its headers in $home/onednn/installed. Git is hidden from its project: it would write down the commit
# of the repository around it.
get_onednn() {
  local wanted source=$home/onednn/source-$onednn_version log=$home/onednn/build.log
  wanted="$onednn_version $zig_version $glibc $onednn_primitives"
  [[ $(cat "$home/onednn/installed/made-of" 2>/dev/null) != "$wanted" ]] || return 0
  [[ -d $source ]] || get_onednn_source "$source"
  if [[ $(cat "$home/onednn/build/made-of" 2>/dev/null) != "$wanted" ]]; then  # else what an interrupted build has compiled stays
    rm -rf "$home/onednn/build" "$home/onednn/installed"
    mkdir "$home/onednn/build"
    printf '%s' "$wanted" >"$home/onednn/build/made-of"
  fi
  say "compiling oneDNN $onednn_version: once, a quarter of an hour on two CPUs"
  {
    cmake -G Ninja -S "$source" -B "$home/onednn/build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/PortableToolchain.cmake" \
      -DCMAKE_INSTALL_PREFIX="$home/onednn/installed" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS_RELEASE="-O2 -g0 -DNDEBUG \"-ffile-prefix-map=$source/=\"" -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON \
      -DONEDNN_LIBRARY_TYPE=STATIC -DONEDNN_CPU_RUNTIME=THREADPOOL -DONEDNN_ENABLE_PRIMITIVE="$onednn_primitives" \
      -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_TESTS=OFF -DONEDNN_VERBOSE=OFF \
      -DONEDNN_ENABLE_JIT_PROFILING=OFF -DONEDNN_ENABLE_ITT_TASKS=OFF -DONEDNN_ARCH_OPT_FLAGS= &&
      cmake --build "$home/onednn/build" -j "${DDPRUN_BUILD_JOBS:-$(nproc)}" && cmake --install "$home/onednn/build"
  } >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "compiling oneDNN failed (the text above is the end of $log)"; }
  printf '%s' "$wanted" >"$home/onednn/installed/made-of"
}
