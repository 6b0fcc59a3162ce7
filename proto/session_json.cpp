#include "proto/membership_fields.hpp"
#include "proto/session_messages.hpp"

namespace ddprun::proto {

template <>
inline constexpr std::string_view kKind<Prove> = "prove";
template <>
inline constexpr auto kFields<Prove> = std::tuple{required("proof", &Prove::proof)};
template <>
inline constexpr std::string_view kKind<Resume> = "resume";
template <>
inline constexpr auto kFields<Resume> = std::tuple{
    required("agent", &Resume::agent),
    field("epoch", &Resume::epoch),
    field("round", &Resume::round),
    field("next_seq", &Resume::next_seq, between(1, std::numeric_limits<std::int64_t>::max())),
    field("acknowledged", &Resume::acknowledged),
    field("lease_ns", &Resume::lease),
    field("replaces", &Resume::replaces),
    field("age_ns", &Resume::age),
    field("path", &Resume::path),
};
template <>
inline constexpr std::string_view kKind<KeepAlive> = "keep_alive";
template <>
inline constexpr auto kFields<KeepAlive> = std::tuple{
    required("n", &KeepAlive::number),
    field("sent_ns", &KeepAlive::sent, kInstant),
};
template <>
inline constexpr std::string_view kKind<Bye> = "bye";
template <>
inline constexpr auto kFields<Bye> = std::tuple{};
template <>
inline constexpr auto kFields<StatusPlace> = std::tuple{
    field("run_id", &StatusPlace::run_id),
    field("agent", &StatusPlace::agent),
};
template <>
inline constexpr std::string_view kKind<StatusRequest> = "status";
template <>
inline constexpr auto kFields<StatusRequest> = std::tuple{field("from", &StatusRequest::from)};
template <>
inline constexpr std::string_view kKind<Fence> = "fence";
template <>
inline constexpr auto kFields<Fence> = std::tuple{required("node", &Fence::node)};

template <>
inline constexpr std::string_view kKind<Welcome> = "welcome";
template <>
inline constexpr auto kFields<Welcome> = std::tuple{
    required("epoch", &Welcome::epoch),
    field("resumed", &Welcome::resumed),
    field("acknowledged", &Welcome::acknowledged),
    required("lease_ns", &Welcome::lease),
    required("keep_alive_ns", &Welcome::keep_alive_period),
    required("job_time_ns", &Welcome::job_time, kInstant),
    field("clock", &Welcome::clock),
    field("direct", &Welcome::direct),
    field("in_agent", &Welcome::in_agent),
    field("restarts", &Welcome::restarts),
};
template <>
inline constexpr std::string_view kKind<Alive> = "alive";
template <>
inline constexpr auto kFields<Alive> = std::tuple{
    required("n", &Alive::number),
    required("received_ns", &Alive::received, kInstant),
    required("answered_ns", &Alive::answered, kInstant),
    field("acknowledged", &Alive::acknowledged),
};
template <>
inline constexpr auto kNames<Refused::Why> =
    std::to_array<std::string_view>({"wrong_secret", "other_job", "limit", "broken", "no_fence",
                                     "elsewhere", "encryption", "certificate"});
static_assert(kNames<Refused::Why>.size() == static_cast<int>(Refused::Why::certificate) + 1);
template <>
inline constexpr std::string_view kKind<Refused> = "refused";
template <>
inline constexpr auto kFields<Refused> = std::tuple{
    required("why", &Refused::why),
    field("reason", &Refused::reason, kText),
    field("place", &Refused::place),
};
template <>
inline constexpr auto kFields<MemberStatus> = std::tuple{
    required("agent", &MemberStatus::agent),
    field("node_name", &MemberStatus::node_name),
    field("group_rank", &MemberStatus::group_rank, kNodes),
    field("connected", &MemberStatus::connected),
    field("silent_for_ns", &MemberStatus::silent_for),
    field("silent_for_longer", &MemberStatus::silent_for_longer),
};
template <>
inline constexpr auto kFields<JobStatus> = std::tuple{
    required("run_id", &JobStatus::run_id),
    field("epoch", &JobStatus::epoch),
    field("phase", &JobStatus::phase),
    field("round", &JobStatus::round),
    field("nodes", &JobStatus::nodes, kNodes),
    field("min_nodes", &JobStatus::min_nodes, kNodes),
    field("max_nodes", &JobStatus::max_nodes, kNodes),
    field("restart_count", &JobStatus::restart_count),
    field("max_restarts", &JobStatus::max_restarts),
    field("age_ns", &JobStatus::age),
    field("members", &JobStatus::members, list(kStatusMembersMax)),
};
template <>
inline constexpr std::string_view kKind<Status> = "status";
template <>
inline constexpr auto kFields<Status> = std::tuple{
    field("jobs", &Status::jobs, list(kStatusJobsMax)),
    field("job_count", &Status::job_count),
    field("next", &Status::next),
    field("journal", &Status::journal),
    field("durable", &Status::durable),
};

namespace {

template <class Message>
std::string encode_one(const Message& message) {
  std::string out = "{";
  write_message(out, message);
  return out += '}';
}
std::string encode_one(const Numbered& numbered) {
  std::string out = "{\"seq\":";
  append_number(out, numbered.seq);
  out += ',';
  std::visit([&](const auto& message) { write_message(out, message); }, numbered.message);
  return out += '}';
}
std::string encode_one(const MembershipMessage& any) {
  return std::visit([](const auto& message) { return encode_one(message); }, any);
}

Result<ClientMessage> not_plain(const Envelope& envelope, ClientMessage) {
  Numbered numbered;
  if (const ErrorCode ec = read_message(envelope, numbered.message)) return ec;
  numbered.seq = envelope.seq.value_or(0);
  if (numbered.seq == 0) return make_error_code(Errc::malformed);
  return numbered;
}
Result<ServiceMessage> not_plain(const Envelope& envelope, ServiceMessage) {
  MembershipMessage message;
  if (const ErrorCode ec = read_message(envelope, message)) return ec;
  return message;
}

template <class Message>
Result<Message> decode_session_message(std::string_view body) {
  const auto envelope = open_envelope(body);
  if (!envelope) return envelope.error();
  Message message;
  const ErrorCode ec = read_message(*envelope, message);
  if (ec == Errc::unknown_kind) return not_plain(*envelope, Message());
  if (ec) return ec;
  return message;
}

}  // namespace

std::string encode(const ClientMessage& message) {
  return std::visit([](const auto& one) { return encode_one(one); }, message);
}
std::string encode(const ServiceMessage& message) {
  return std::visit([](const auto& one) { return encode_one(one); }, message);
}

Result<ClientMessage> decode_client_message(std::string_view body) {
  return decode_session_message<ClientMessage>(body);
}
Result<ServiceMessage> decode_service_message(std::string_view body) {
  return decode_session_message<ServiceMessage>(body);
}

}  // namespace ddprun::proto
