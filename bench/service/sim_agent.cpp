#include "bench/service/sim_agent.hpp"

#include <csignal>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace ddprun::bench {

using namespace std::chrono_literals;

namespace {

/// What a crash leaves on stderr.
constexpr int kLastLines = 20;

proto::ControlChannel::Settings channel_settings(const SimJob& job) {
  proto::ControlChannel::Settings settings;
  settings.hello = proto::rendezvous_hello(job.run_id);
  settings.secret = job.secret;
  if (job.encrypter) settings.encryption = job.encrypter->client({"", job.secret, job.run_id});
  return settings;
}

}  // namespace

SimAgent::SimAgent(const SimJob& job, std::uint32_t index)
    : job_(job), name_(fmt::format("node{}", index)), channel_(channel_settings(job)) {}

void SimAgent::take(std::string_view bytes) {
  channel_.append(bytes);
  while (true) {
    const auto body = channel_.next();
    if (!body) throw std::runtime_error(body.error().message());
    if (channel_.is_open() && !std::exchange(resumed_, true)) {
      proto::Resume resume;
      resume.agent = name_ + ":4711:6f1c0a9e";
      resume.next_seq = 1;
      resume.age = 300ms;
      send(resume);
      join();
    }
    if (!*body) return;
    const auto message = proto::decode_service_message(**body);
    if (!message) throw std::runtime_error(message.error().message());
    std::visit([this](const auto& one) { hear(one); }, *message);
  }
}

void SimAgent::join() {
  proto::Join join;
  join.local_world_size = job_.workers;
  join.node_name = name_;
  join.boot_id = "0d6c1a86-1f0e-4f44-9d0c-3f4b5a0c7d11";
  join.age = 300ms;
  join.store_addr = "127.0.0.1";
  join.store_port = 40'000;
  join.store_clients_max = 100'000;
  join.settings.min_nodes = join.settings.max_nodes = job_.nodes;
  join.settings.restart.max_restarts = 3;
  if (round_) join.was_in = proto::PastRound{round_->epoch, round_->number, round_->restart_count};
  say(std::move(join));
}

void SimAgent::fail_worker() {
  proto::WorkerFailed failed;
  failed.round = round_->number;
  failed.local_rank = 3;
  failed.pid = 4714;
  failed.exit = {true, SIGKILL, false};
  failed.ran_for = failed.at = 2s;
  failed.round_began = proto::JobTime{1s, 1ms};
  failure_.emplace();
  failure_->local_rank = failed.local_rank;
  failure_->pid = failed.pid;
  failure_->exit = failed.exit;
  failure_->ran_for = failure_->ended_at = failed.ran_for;
  failure_->last_lines.assign(kLastLines, std::string(80, 'x'));
  say(std::move(failed));
}

void SimAgent::finish_workers() { say(proto::WorkersDone{round_->number}); }

void SimAgent::keep_alive() { send(proto::KeepAlive{++asked_, 1s}); }

// ---- what the service says ----

void SimAgent::hear(const proto::Prove&) { throw std::runtime_error("a second proof"); }
void SimAgent::hear(const proto::Status&) {
  throw std::runtime_error("a status that was not asked for");
}
void SimAgent::hear(const proto::Refused& refused) { throw std::runtime_error(refused.reason); }
void SimAgent::hear(const proto::Welcome& welcome) { welcome_ = welcome; }
void SimAgent::hear(const proto::Alive& alive) { answered_ = alive.number; }

void SimAgent::hear(const proto::MembershipMessage& message) {
  if (const auto* round = std::get_if<proto::Round>(&message)) {
    round_ = *round;
    say(proto::Started{round->number});
  } else if (const auto* stop = std::get_if<proto::Stop>(&message)) {
    proto::Stopped stopped;
    stopped.round = stop->round;
    stopped.round_began = proto::JobTime{1s, 1ms};
    if (failure_) stopped.failures.push_back(*std::exchange(failure_, std::nullopt));
    say(std::move(stopped));
    if (!stop->final) join();
  } else if (const auto* finished = std::get_if<proto::Finished>(&message)) {
    finished_ = *finished;
    send(proto::Bye{});
  }
}

void SimAgent::say(proto::AgentMessage message) {
  send(proto::Numbered{next_seq_++, std::move(message)});
}

void SimAgent::send(const proto::ClientMessage& message) {
  if (!channel_.send(proto::encode(message))) throw std::runtime_error("a message is too large");
}

}  // namespace ddprun::bench
