# shellcheck shell=bash
# How far a build of ninja is, for scripts/build. (Ninja itself knows the time left from 1.12 on; Debian 12 has 1.11.)

# time_left BUILT OBJECTS SECONDS: leaves in $left how long the rest takes, in words; nothing while too little is built to tell.
# Objects are counted, and not ninja's steps: those that copy and generate files come first, and take no time.
time_left() {
  local built=$1 objects=$2 seconds=$3 rest
  left=
  ((seconds >= 20 && built * 8 >= objects && built < objects)) || return 0
  rest=$((seconds * (objects - built) / built))
  left=', less than a minute left'
  ((rest < 60)) || left=", about $(((rest + 59) / 60)) min left"
}

# show_progress OBJECTS: ninja's output, with the time left. On a terminal one moving line, elsewhere a line for each tenth; all else stays.
show_progress() {
  local objects=$1 line tenth columns=80 shown=-1 built=0 left=
  if [[ -t 1 ]]; then
    { columns=$(stty size <&3 2>/dev/null) || columns='24 80'; } 3>&1
    columns=${columns#* }
    ((columns > 1)) || columns=80
  fi
  while IFS= read -r line; do
    if [[ ! $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*) ]]; then
      if [[ -t 1 ]]; then printf '\r\e[K'; fi
      printf '%s\n' "$line"
      continue
    fi
    [[ ${BASH_REMATCH[3]} != Building* ]] || built=$((built + 1))
    tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    time_left "$built" "$objects" "$SECONDS"
    line="[${BASH_REMATCH[1]}/${BASH_REMATCH[2]}$left] ${BASH_REMATCH[3]}"
    if [[ -t 1 ]]; then
      printf '\r\e[K%s' "${line:0:columns-1}"
    elif [[ $tenth -ne $shown ]]; then
      shown=$tenth
      printf '%s\n' "$line"
    fi
  done
  if [[ -t 1 ]]; then printf '\n'; fi
}
