// The bytes of a job's journal. A line names the format and the job:
//
//   ddprun journal 1 RUN_ID [RECORDS] CRC
//
// and one frame follows for each record: the length of its body and a CRC-32 of length and body, 4
// bytes each, big-endian; then the body, a JSON object: {"at_ns":N,"session_began":{...}}, or
// {"at_ns":N,"agent":"...","join":{...}} for what an agent has said.
//
// The first RECORDS records are a snapshot, which counts as a whole: a "job_restored", and for each
// session and each process with losses a "session_restored" and a "losses_restored".
//
// Pure. Reading takes any bytes and gives a beginning of what was written.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/service/job.hpp"
#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

/// No record comes near it: a control message has at most 1 MiB.
inline constexpr std::size_t kJournalBodyBytesMax = std::size_t{8} << 20;

/// The first line.
std::string journal_head(std::string_view run_id, std::size_t snapshot_records = 0);
/// The frame of a record, which does not name its job.
void append_journal_frame(std::string& out, const JobRecord& record);
/// A whole journal: the first line, and the frames of a snapshot.
std::string journal_of(const JobSnapshot& snapshot);

struct JournalContent {
  enum class State {
    whole,
    torn,     ///< the last frame is cut or wrong, as a crash in the middle of a write leaves it
    damaged,  ///< something else is wrong
  } state = State::whole;
  std::string run_id;  ///< empty: not even the first line is whole, or the snapshot after it
  std::size_t snapshot_records = 0;
  std::vector<JobRecord> records;  ///< up to the first fault
  std::size_t good_bytes = 0;      ///< of the first line and these records
  std::string fault;               ///< what is wrong where
};
JournalContent read_journal(std::string_view bytes);

/// A run id as a word of printable ASCII without '/', blanks and a '.' in front: other bytes as
/// %XX.
std::string escaped_run_id(std::string_view run_id);

}  // namespace ddprun::rdzv
