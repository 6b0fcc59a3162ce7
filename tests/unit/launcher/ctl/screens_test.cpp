// What ddpctl prints of a job's answers.
#include "launcher/ctl/screens.hpp"

#include <catch2/catch.hpp>

using namespace ddprun::ctl;

namespace {

constexpr const char* kStatus =
    R"({"run_id":"train7","ddprun_version":"0.1.0","node":"a","pid":77,"program":["python3","train.py"],
        "state":"running","age_seconds":62,"restart_count":1,"max_restarts":3,"workers":[
        {"rank":4,"local_rank":0,"pid":80,"state":"running","ran_for_seconds":60.5,"step":1234,"phase":"forward",
         "step_age_seconds":0.01,"cpu_seconds":59,"memory_bytes":1073741824},
        {"rank":5,"local_rank":1,"pid":81,"state":"ended","signal":9,"ran_for_seconds":2}],
        "round":1,"round_age_seconds":61,"nodes":2,"group_rank":1,"world_size":8})";

}  // namespace

TEST_CASE("a status has a line for each worker") {
  CHECK(status_text(kStatus) ==
        "job train7 on a: running, 1 min 2 s old; 1 of 3 restarts\n"
        "program: python3 train.py (ddprun 0.1.0, pid 77)\n"
        "round 1: for 1 min 1 s, 8 workers on 2 nodes; this is node 1\n"
        "  RANK  PID  STATE              FOR        STEP  PHASE    REPORTED   CPU     MEMORY\n"
        "  4     80   running            1 min 0 s  1234  forward  10 ms ago  59.0 s  1.0 GiB\n"
        "  5     81   killed by SIGKILL  2.0 s\n");
}

TEST_CASE("a list has a line for each job") {
  CHECK(list_text({{"train7.77", kStatus}, {"x", "no JSON"}}) ==
        "JOB        STATE    FOR        ROUND  RESTARTS  WORKERS  NODES  PROGRAM\n"
        "train7.77  running  1 min 2 s  1      1 of 3    1 of 2   2      python3 train.py\n");
}

TEST_CASE("what came of a save tells who has saved, and who does not when asked") {
  CHECK(save_text(R"({"done":true,"workers":4,"others":0,"step":300,"took_seconds":0.1})") ==
        "4 workers have saved, by step 300 (100 ms)\n");
  CHECK(save_text(R"({"done":true,"workers":1,"others":3,"step":9,"took_seconds":62})") ==
        "1 worker has saved, by step 9 (1 min 2 s)\n3 others do not save when asked, or ended\n");
}

TEST_CASE("an event is one line, whatever its texts have") {
  CHECK(event_text(R"({"number":3,"time":"T","event":"worker_ended","node":"a","round":2,"rank":1,
                       "signal":9,"core_dumped":false,"ran_for_seconds":1.5})") ==
        "T  round 2  worker_ended  rank=1 signal=9 core_dumped=no ran_for_seconds=1.500\n");
  CHECK(event_text(R"({"number":4,"time":"T","event":"line","node":"a","text":"a\nb"})") ==
        "T  line  a\\nb\n");
  CHECK(event_text(R"({"lost":7})") == "(7 events are not kept any more)\n");
  CHECK(event_text("no JSON").empty());
}
