# shellcheck shell=bash
# What the scripts share; sourced by each after `set -euo pipefail`. SCRIPT is the name that starts their messages.
SCRIPT=$(basename "$0")

# Prints a message of this script to stderr.
say() { printf '%s: %s\n' "$SCRIPT" "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# The comment at the top of the script is its help.
show_usage() { sed -n '2,${/^#/!q;s/^# \{0,1\}//;p}' "$0"; }

# Prints the help and ends the script where the arguments ask for it. Call it before anything else happens.
help_wanted() {
  local word
  for word in "$@"; do
    case $word in
      -h | --help)
        show_usage
        exit 0
        ;;
    esac
  done
}

# Ends the script with 2: an argument that it does not have.
wrong_argument() {
  printf '%s: unknown argument %s\n%s\n' "$SCRIPT" "$1" "$(show_usage | grep -m 1 '^usage: ')" >&2
  exit 2
}

# Prints how many MB are free where $1 is (or its nearest parent).
free_mb() {
  local place=$1 kib
  while [[ ! -e $place ]]; do place=$(dirname "$place"); done
  { read -r _ && read -r _ _ _ kib _; } < <(df -Pk "$place")
  echo $((kib / 1000))
}

# Words for the end of an error message where the disk of $1 is (nearly) full; else nothing.
disk_hint() {
  local free
  free=$(free_mb "$1" 2>/dev/null) || return 0
  [[ $free -ge 100 ]] || printf '; the disk of %s is full (%s MB free): make room (%s), then run this again' "$1" "$free" "$2"
}

# Ends the script with one line where nothing can be written to build/ of this checkout.
needs_writable_checkout() {
  local error
  if ! error=$({ mkdir -p build && printf '%4096s' '' >build/.written; } 2>&1); then
    rm -f build/.written 2>/dev/null || true
    error=${error##*: }
    case $error in
      'No space left on device') fail "can't write to $PWD/build: $error; make room, then run this again" ;;
      *) fail "can't write to $PWD/build: $error; copy the checkout to a folder of yours (cp -a '$PWD' ~/) and run it there" ;;
    esac
  fi
  rm -f build/.written
}

# Ends the script with 64 where the scripts' Python programs cannot run.
needs_python() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && return
  say "python3 is missing or older than 3.9: put a newer one on PATH"
  exit 64
}

# True where version $1 is at least version $2.
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }
