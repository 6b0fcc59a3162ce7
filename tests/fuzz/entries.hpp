// What the fuzzers and the smoke test do with one input: each of these takes any bytes, and aborts
// if a promise is broken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::test {

/// Feeds a pure store, whole and in pieces: the answers must not differ. The first two bytes choose
/// how the rest is cut and which dialects are accepted.
void fuzz_c10d(const std::uint8_t* data, std::size_t size);

/// Frames of the control connections and the hello in them, whole and in pieces. The first byte
/// chooses how the rest is cut.
void fuzz_frame(const std::uint8_t* data, std::size_t size);

/// An encrypted control connection. The first byte: 0 and 1 for what a peer without the secret
/// sends to a service and to a client, else for changes of what a client sends on its way.
void fuzz_tls(const std::uint8_t* data, std::size_t size);

/// Control messages of either side: what is read, written and read again is the same.
void fuzz_membership_json(const std::uint8_t* data, std::size_t size);

/// What agents and observers tell a rendezvous service, in lines (see service_entry.cpp): it goes
/// on, all that it sends can be read, and its journal brings back what was there.
void fuzz_service(const std::uint8_t* data, std::size_t size);

/// What an agent's session hears, in lines (see session_entry.cpp): it sends nothing that its state
/// forbids, and ends within its time-outs.
void fuzz_agent_session(const std::uint8_t* data, std::size_t size);

/// The bytes of a job's journal: what is read of them is a beginning, and a service that starts
/// with it serves its agents, and leaves as much to the next one.
void fuzz_journal(const std::uint8_t* data, std::size_t size);

/// A journal with frames and checksums that are right: the bodies of records, a line each.
void fuzz_journal_records(const std::uint8_t* data, std::size_t size);

/// What rdzvd reads of an etcd: the first byte chooses the kind of answer. The keys of a page are
/// also those of a journal that the next leader reads.
void fuzz_etcd_answer(const std::uint8_t* data, std::size_t size);

/// --rdzv-conf and --rdzv-endpoint.
void fuzz_rdzv_conf(const std::uint8_t* data, std::size_t size);

/// A list of hosts as Slurm writes it.
void fuzz_hostlist(const std::uint8_t* data, std::size_t size);

/// What a launcher and its nodes tell each other through ssh: the plan, and the output with its
/// greeting and record. The first byte chooses how the rest is cut.
void fuzz_node_messages(const std::uint8_t* data, std::size_t size);

/// Lists and files of hosts, and the command of --ssh.
void fuzz_hostfile(const std::uint8_t* data, std::size_t size);

/// A worker's progress page, and as the output of a debugger.
void fuzz_progress_page(const std::uint8_t* data, std::size_t size);

/// What a worker that can take part in another round sends to its agent: the body of a frame.
void fuzz_worker_message(const std::uint8_t* data, std::size_t size);

/// What ddpctl asks an agent: the body of a frame.
void fuzz_job_request(const std::uint8_t* data, std::size_t size);

/// torch's timer file, whole and in pieces: the timers must not differ. The first byte chooses how
/// the rest is cut.
void fuzz_timer_file(const std::uint8_t* data, std::size_t size);

/// What a worker prints, whole and in pieces: lines that move no cursor, rows within their width.
/// The first byte chooses how the rest is cut, and the width of the terminal.
void fuzz_stream_text(const std::uint8_t* data, std::size_t size);

/// A safetensors file, and what of it a model takes as initial weights. The first byte: 0 for the
/// bytes of a file, else how many bytes of data follow a header, of which the JSON is the rest.
void fuzz_safetensors(const std::uint8_t* data, std::size_t size);

/// A JPEG or PNG file, its first bytes and a PNG's checksums made right: an image, or one line that
/// refuses it.
void fuzz_jpeg(const std::uint8_t* data, std::size_t size);
void fuzz_png(const std::uint8_t* data, std::size_t size);

/// A file of texts with labels. The first byte: odd, if its first line is a header.
void fuzz_tsv(const std::uint8_t* data, std::size_t size);

/// A SentencePiece model, before the library sees it.
void fuzz_piece_model(const std::uint8_t* data, std::size_t size);

/// ddprun's command line over the real table of options: words that end with a NUL byte; those that
/// begin with `PET_` are environment variables, NAME=VALUE.
void fuzz_command_line(const std::uint8_t* data, std::size_t size);

}  // namespace ddprun::test
