// What all that was seen of a worker says about its end.
#include "agent/evidence/evidence.hpp"

#include <catch2/catch.hpp>
#include <csignal>

#include "agent/evidence/line_signs.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;
using proto::EvidenceKind;

namespace {

WorkerObservation ended(ExitStatus exit, bool stopped_by_us = false) {
  WorkerObservation seen;
  seen.exit = exit;
  seen.ended_at = 5s;
  seen.stopped_by_us = stopped_by_us;
  seen.stop_signal = SIGTERM;
  return seen;
}

}  // namespace

TEST_CASE("a worker that succeeded or obeyed has no evidence against it") {
  CHECK_FALSE(evidence_of(ended({false, 0, false})).has_value());
  CHECK_FALSE(evidence_of(ended({false, 0, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({true, SIGTERM, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({true, SIGKILL, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({false, 143, false}, true)).has_value());
  WorkerObservation caught = ended({false, 0, false});
  caught.exception_at = 1s;
  CHECK_FALSE(evidence_of(caught).has_value());
}

TEST_CASE("an end by itself is evidence from the strongest to the weakest") {
  const auto kind = [](const WorkerObservation& seen) { return evidence_of(seen)->kind; };
  CHECK(kind(ended({true, SIGSEGV, false})) == EvidenceKind::fatal_signal);
  CHECK(kind(ended({true, SIGABRT, false}, true)) == EvidenceKind::fatal_signal);
  CHECK(kind(ended({true, SIGKILL, false})) == EvidenceKind::own_exit);
  CHECK(kind(ended({false, 1, false})) == EvidenceKind::own_exit);
  CHECK(kind(ended({false, 1, false}, true)) == EvidenceKind::late_exit);
  WorkerObservation killed = ended({true, SIGKILL, false});
  killed.memory_kill = true;
  CHECK(kind(killed) == EvidenceKind::memory_kill);
  killed.stopped_by_us = true;
  CHECK(kind(killed) == EvidenceKind::memory_kill);
  killed.killed_by_us = true;
  CHECK_FALSE(evidence_of(killed).has_value());
  WorkerObservation absent = ended({false, 127, false});
  absent.not_started = "No such file or directory";
  CHECK(kind(absent) == EvidenceKind::not_started);
}

TEST_CASE("the earliest sign of a worker counts and the best message is kept") {
  WorkerObservation seen = ended({false, 1, false});
  seen.exception_at = 3s;
  seen.exception_message = "ValueError: bad lr";
  auto evidence = evidence_of(seen);
  CHECK(evidence->kind == EvidenceKind::exception_line);
  CHECK(evidence->at == 3s);
  seen.error_file_at = 4s;
  seen.error_file_message = "from the file";
  evidence = evidence_of(seen);
  CHECK(evidence->kind == EvidenceKind::error_file);
  CHECK(evidence->at == 3s);
  CHECK(evidence->text == "from the file");
}

TEST_CASE("a worker that was stopped in the middle of its exception failed all the same") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.exception_at = 2s;
  seen.exception_message = "ValueError: bad lr";
  REQUIRE(evidence_of(seen).has_value());
  CHECK(evidence_of(seen)->at == 2s);
}

TEST_CASE("an exception's line that is not certain explains a failure and proves none") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.stopped_at = 4s;
  seen.exception_at = 3s;
  seen.exception_message = "OSError: Connection reset by peer";
  seen.exception_in_output = true;
  REQUIRE(evidence_of(seen).has_value());
  CHECK(evidence_of(seen)->in_output);
  seen.exception_certain = false;
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.stopped_by_us = false;
  seen.exit = ddprun::ExitStatus{false, 1, false};
  CHECK(evidence_of(seen)->kind == EvidenceKind::exception_line);
  CHECK(evidence_of(seen)->in_output);
  CHECK(evidence_of(seen)->at == 5s);
  CHECK(evidence_of(seen)->victim_phrase == "Connection reset by peer");
  seen.stopped_by_us = true;
  CHECK(evidence_of(seen)->kind == EvidenceKind::late_exit);
  CHECK(evidence_of(seen)->after_stop);
}

TEST_CASE("the age of an exception at the stop decides how much it counts") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.exception_message = "ValueError: bad lr";
  seen.ended_at = 3 * 3600s;
  seen.stopped_at = seen.ended_at - 100ms;
  seen.exception_at = *seen.stopped_at - 4s;
  CHECK(evidence_of(seen)->kind == EvidenceKind::exception_line);
  CHECK_FALSE(evidence_of(seen)->after_stop);
  seen.exception_at = *seen.stopped_at - 60s;  // overcome, or stuck since
  CHECK(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->at == seen.ended_at);
  seen.exception_at = *seen.stopped_at - 2 * 3600s;
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.exception_at = *seen.stopped_at + 1ms;  // SIGTERM became an exception
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.exit = ExitStatus{false, 1, false};
  CHECK(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->text == "ValueError: bad lr");
}

TEST_CASE("a crash after our stop may come of it, unless it had begun before") {
  WorkerObservation seen = ended({true, SIGABRT, false}, true);
  seen.stopped_at = 4s;
  CHECK(evidence_of(seen)->kind == EvidenceKind::fatal_signal);
  CHECK(evidence_of(seen)->after_stop);
  seen.was_dying = true;
  CHECK_FALSE(evidence_of(seen)->after_stop);
  seen.was_dying = false;
  seen.exception_at = 3s;
  CHECK_FALSE(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->at == 3s);
  seen.exit = ExitStatus{false, 1, false};
  seen.exception_at.reset();
  seen.was_dying = true;
  CHECK(evidence_of(seen)->kind == EvidenceKind::own_exit);
}

TEST_CASE("a worker that was found to hang hung however it ended") {
  for (const auto& end : {ended({true, SIGTERM, false}, true), ended({false, 0, false}, true),
                          ended({true, SIGABRT, false})}) {
    WorkerObservation seen = end;
    seen.hung_at = 2s;
    seen.hang_message = "at step 5, silent for 3.0 s";
    const auto evidence = evidence_of(seen);
    CHECK(evidence->kind == EvidenceKind::hang);
    CHECK(evidence->at == 2s);
    CHECK(evidence->text == "at step 5, silent for 3.0 s");
  }
}

TEST_CASE("a fatal signal after a victim's words makes a victim") {
  WorkerObservation seen = ended({true, SIGABRT, false});
  seen.exception_at = 4s;
  seen.exception_message = "  what():  NCCL error: remote process exited";
  CHECK(evidence_of(seen)->kind == EvidenceKind::fatal_signal);
  CHECK(evidence_of(seen)->victim_phrase == "remote process exited");
}
