// What keeps the warden from starving on a machine that is out of CPU time or memory: it must kill
// workers when their lease is over, whatever else the machine does.
#pragma once

namespace ddprun::warden {

/// For the calling process, as far as this user may: it runs before others (SCHED_RR, else a lower
/// nice value), its memory stays in memory, and the kernel ends it last when memory is short. What
/// is not allowed is left as it is. Children that are forked later inherit neither priority nor
/// memory.
void protect_from_starving();

}  // namespace ddprun::warden
