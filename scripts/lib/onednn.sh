# shellcheck shell=bash
# oneDNN for scripts/package: Debian's source package, compiled by the compiler of the packages into one static library with
# what train calls and nothing else (docs/decisions/0014-portable-programs.md). Needs $home, $own, $arch and common.sh.
# shellcheck disable=SC2016,SC2154,SC2164 # the variables are of scripts/package, which stops at any error
onednn_version=3.7.2+ds-2  # of Debian 13; that of Debian 12 is older
onednn_sha256=440b9c25665d6cb75d251ffd6477b2694a668423c496d355c0afde58b410337a  # of its .dsc file, which has those of the tarballs
onednn_primitives='BATCH_NORMALIZATION;CONVOLUTION;DECONVOLUTION;INNER_PRODUCT;MATMUL;POOLING;REORDER'

# Where its files may be: the mirror that this machine's apt uses has them for as long as a distribution has that very version,
# Debian's archives for good.
onednn_places() {
  local pool=pool/main/o/onednn
  apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(SITE)' 'Created-By: Packages' 2>/dev/null |
    sed -n "/-security\$/d; s|^Debian main \\(.*\\)|\\1/$pool|p" | sort -u | head -n 1
  echo "http://snapshot.debian.org/archive/debian/20250901T000000Z/$pool"
  echo "http://archive.debian.org/debian/$pool"
}

# download FILE SHA256: into $home/onednn/download, from the first place that has those very bytes, unless they are there already.
download() {
  local file=$home/onednn/download/$1 place error reasons=
  ! sha256sum --status -c <<<"$2  $file" 2>/dev/null || return 0
  while read -r place; do
    error=$(/usr/lib/apt/apt-helper -q -o APT::Sandbox::User= download-file "$place/$1" "$file" "SHA256:$2" 2>&1) && return
    rm -f "$file"{,.FAILED}
    reasons+="; $(sed -n 's/^E: Failed to fetch //p' <<<"$error" | head -n 1 | grep . || tail -n 1 <<<"$error")"
  done < <(onednn_places)
  fail "could not download $1 of the sources of oneDNN$reasons$(disk_hint "$home" '600 MB'); check the network, or put $1 (SHA-256 $2) into ${home#"$PWD/"}/onednn/download; then run this again"
}

# get_onednn_source FOLDER
get_onednn_source() {
  local description=onednn_$onednn_version.dsc file sum error
  say "downloading the sources of oneDNN $onednn_version into build/package/onednn"
  rm -rf "$home"/onednn/{source,onednn}-*
  mkdir -p "$home/onednn/download"
  download "$description" "$onednn_sha256"
  while read -r sum file; do download "$file" "$sum"; done < <(
    sed -n '/^Checksums-Sha256:/,/^[^ C]/s/^ \([0-9a-f]*\) [0-9]* \(.*\)/\1 \2/p' "$home/onednn/download/$description")
  error=$(cd "$home/onednn" && dpkg-source --no-check -x "download/$description" onednn-unpacked 2>&1) ||
    fail "could not unpack $description: $(tail -n 1 <<<"$error")$(disk_hint "$home" '600 MB')"
  leave_out_unused
  inline_less
  mv "$home/onednn/onednn-unpacked" "$1"
  rm -rf "$home"/onednn/{download,onednn_*}
}

# Removes what no primitive of train needs, which is a quarter of the time to compile: other primitives, and copies between
# types that train does not have (it has f32 and bf16). A program that needs one of them does not link.
leave_out_unused() {
  cd "$home/onednn/onednn-unpacked/src/cpu"
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
    "$home/onednn/onednn-unpacked/src/cpu/x64/CMakeLists.txt"
}

# Leaves libdnnl.a and its headers in $own/onednn/installed. Git is hidden from its project: it would write down the commit
# of the repository around it.
get_onednn() {
  local wanted toolchain=PortableToolchain source=$home/onednn/source-$onednn_version log=$own/onednn/build.log
  wanted="$onednn_version $zig_version $glibc $onednn_primitives"
  [[ $(cat "$own/onednn/installed/made-of" 2>/dev/null) != "$wanted" ]] || return 0
  [[ $arch == x86_64 ]] || toolchain=PortableToolchainAarch64
  [[ -d $source ]] || get_onednn_source "$source"
  if [[ $(cat "$own/onednn/build/made-of" 2>/dev/null) != "$wanted" ]]; then  # else what an interrupted build has compiled stays
    rm -rf "$own/onednn/build" "$own/onednn/installed"
    mkdir -p "$own/onednn/build"
    printf '%s' "$wanted" >"$own/onednn/build/made-of"
  fi
  say "compiling oneDNN $onednn_version: once, a quarter of an hour on two CPUs"
  {
    cmake -G Ninja -S "$source" -B "$own/onednn/build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/$toolchain.cmake" \
      -DCMAKE_INSTALL_PREFIX="$own/onednn/installed" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_CXX_FLAGS_RELEASE="-O2 -g0 -DNDEBUG \"-ffile-prefix-map=$source/=\"" -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON \
      -DONEDNN_LIBRARY_TYPE=STATIC -DONEDNN_CPU_RUNTIME=THREADPOOL -DONEDNN_ENABLE_PRIMITIVE="$onednn_primitives" \
      -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_TESTS=OFF -DONEDNN_VERBOSE=OFF \
      -DONEDNN_ENABLE_JIT_PROFILING=OFF -DONEDNN_ENABLE_ITT_TASKS=OFF -DONEDNN_ARCH_OPT_FLAGS= &&
      cmake --build "$own/onednn/build" -j "${DDPRUN_BUILD_JOBS:-$(nproc)}" && cmake --install "$own/onednn/build"
  } >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "compiling oneDNN failed (the text above is the end of $log)"; }
  printf '%s' "$wanted" >"$own/onednn/installed/made-of"
}
