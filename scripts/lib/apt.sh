# shellcheck shell=bash
# apt for scripts/install-deps and scripts/lib/install-torch: what it would do, and doing it with a sign of life.
as_root=()
plan=
apt_error=  # the first complaint of the last call

# False where packages can't be installed: neither root nor a sudo that may be asked.
find_root() {
  [[ $(id -u) -ne 0 ]] || return 0
  command -v sudo >/dev/null && { [[ -t 0 && -t 2 ]] || sudo -n true 2>/dev/null; } || return 1
  as_root=(sudo)
}

# Reports every 10 s, for as long as its standard input stays open, how far apt is.
watch_progress() {
  local log=$1 line status seconds=0
  while true; do
    status=0
    read -r -t "${DDPRUN_PROGRESS_SECONDS:-10}" _ || status=$?
    [[ $status -gt 128 ]] || return 0
    seconds=$((seconds + ${DDPRUN_PROGRESS_SECONDS:-10}))
    line=$(tail -n 1 "$log" 2>/dev/null) || true
    say "$seconds s: ${line:-downloading}"
  done
}

# Runs a command with its output in a file and a line about its progress every 10 s; shows the output's end when it fails.
with_progress() {
  local log status=0 progress
  log=$(mktemp) || return 1
  exec {progress}> >(watch_progress "$log")
  "$@" >"$log" 2>&1 {progress}>&- || status=$?
  exec {progress}>&-
  apt_error=$(grep -m 1 -E '^(E|Err): ?|No space left on device' "$log" || grep -m 1 '^W: ' "$log") || true
  if [[ $status -ne 0 && -z $apt_error ]]; then tail -n 3 "$log" >&2; fi
  rm -f "$log"
  return "$status"
}

# apt-get update ends with 0 when some lists could not be had; its complaint then stays in $apt_error.
update_lists() { with_progress "${as_root[@]}" apt-get update -qq -o DPkg::Lock::Timeout=120; }

# install_packages NAME... [--download-only]
install_packages() {
  with_progress "${as_root[@]}" apt-get install --no-remove --no-install-recommends "$@" -y -qq -o DPkg::Lock::Timeout=120
}

# What to type to install packages by hand. An image may come without package lists.
install_command() { printf 'apt-get update && apt-get install --no-remove --no-install-recommends %s' "$*"; }

# Leaves apt's plan for the packages in $plan; false where apt has none.
simulate() { plan=$(apt-get install -s --no-install-recommends "$@" 2>&1); }
plan_error() { grep -m 1 '^E: ' <<<"$plan" || tail -n 1 <<<"$plan"; }

# The upstream part of a Debian version (and its epoch): without the distribution's revision, which for a package of the
# distribution's own (no hyphen) is an appended +deb12u3 or the like. Leaves it in $upstream.
upstream_of() {
  upstream=$1
  if [[ $upstream == *-* ]]; then
    upstream=${upstream%-*}
  else
    # (Patterns stand in variables: versions of bash differ in how they read them unquoted.)
    local appended='^(.+)[+~](deb[0-9]+u|b|ubuntu|build)[0-9.]+$'
    while [[ $upstream =~ $appended ]]; do upstream=${BASH_REMATCH[1]}; done
  fi
}

# The first line of the plan that removes an installed package or changes its upstream version; false where there is none.
# apt writes "Remv name [old]" and "Inst name [old] (new Archive [arch])"; without [old] the package is new here.
plan_offence() {
  local line old new upstream replaces='^Inst [^ ]+ \[([^]]*)\] \(([^ ]+)'
  while IFS= read -r line; do
    if [[ $line == 'Remv '* ]]; then
      printf '%s\n' "$line"
      return 0
    fi
    [[ $line =~ $replaces ]] || continue
    old=${BASH_REMATCH[1]} new=${BASH_REMATCH[2]}
    upstream_of "$old"
    old=$upstream
    upstream_of "$new"
    if [[ $old != "$upstream" ]]; then
      printf '%s\n' "$line"
      return 0
    fi
  done <<<"$plan"
  return 1
}

# True where the plan removes nothing and gives no installed package a new upstream version.
plan_keeps_versions() { ! plan_offence >/dev/null; }

# Names the installed packages of the plan that get an update of the version they have.
report_updates() {
  local updates
  updates=$(sed -n 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\).*/\1 \2 -> \3/p' <<<"$plan" | paste -sd , | sed 's/,/, /g')
  [[ -z $updates ]] || say "with these pending updates of the versions that are installed: $updates"
}

# The distribution's default Boost where that is new enough, else its newest versioned package. (Debian 12 has 1.74 as
# its default and 1.81 beside it.)
boost_package() {
  local candidate
  candidate=$(apt-cache policy libboost-dev 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p') || true
  if [[ -n $candidate ]] && at_least "$candidate" 1.81; then
    echo libboost-dev
    return
  fi
  candidate=$(apt-cache pkgnames libboost1. 2>/dev/null | grep -Ex 'libboost1\.(8[1-9]|9[0-9]|[1-9][0-9]{2})-dev' | sort -V | tail -n 1) || true
  if [[ -z $candidate ]]; then  # no package lists yet
    candidate=libboost-dev
    if grep -q '^VERSION_CODENAME=bookworm' "${system_root:-}/etc/os-release" 2>/dev/null; then candidate=libboost1.81-dev; fi
  fi
  echo "$candidate"
}
