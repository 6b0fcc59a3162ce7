// Histories that have shown something, and what. A seed is a history of the sources that it was
// found with: where more is drawn, it becomes another one, so each bug of a core also has a unit
// test.
#pragma once

#include <cstdint>

namespace ddprun::sim {

struct KeptSeed {
  std::uint64_t seed = 0;
  const char* showed = "";
};

inline constexpr KeptSeed kKeptSeeds[] = {
    // With less drawn than now (2026-11-30).
    {34302, "a check: a round's number came again before the one node that knew it had joined"},
    {993, "a check: the same, where that node was cut off"},
    {86065, "a check: a round that reached no node counted for a service that had forgotten it"},
    {564, "a check: the journal of a job that all agents know to be over is gone"},
    {18911, "a check: a node of which the check's answer was on its way counted as a spare"},
    {326351, "a check: times counted for a round that no worker's failure had stopped"},
    // With today's draws.
    {436, "a check: a warden kills the workers of a host that wakes up before it ends"},
    {71743, "a check: a run that followed counted for the one that was over"},
    {2996, "agent_session: a node that was given up while its last round ended learned no outcome"},
    {10645,
     "service_core: a service that was killed while it waited for a past did not wait again"},
    {73718, "a check: a node with other --nnodes came first, and those of the job were refused"},
    {2360, "a check: a restart that was planned before the faults ended takes place at its time"},
    {2396, "a check: of a job whose service has lost its memory the outcome may be unknown"},
    {24059, "a check: the same"},
    {36027, "the simulation: a question to etcd outlived the rdzvd that had asked"},
    {298943, "membership: failures told to services with different clocks were compared"},
    {63239, "a check: a time is uncertain to both sides, and so are two of them"},
    {167623, "a check: a time that was told after the verdict counted for it"},
    {325663, "a check: a node that was given up while its job ended learns no outcome"},
    {2990,
     "a check: a service without memory waits for its own lease, not only for that of agents"},
};

}  // namespace ddprun::sim
