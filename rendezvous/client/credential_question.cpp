#include "rendezvous/client/credential_question.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/start_thread.hpp"

namespace ddprun::rdzv {

/// Between the question and its thread.
struct CredentialQuestion::Answer {
  std::mutex mutex;
  std::condition_variable is_there;
  std::optional<Text> text;

  void give(Text given) {
    {
      const std::lock_guard lock(mutex);
      text.emplace(std::move(given));
    }
    is_there.notify_one();
  }
};

CredentialQuestion::CredentialQuestion(std::shared_ptr<proto::Credentials> credentials,
                                       std::function<Text(proto::Credentials&)> ask)
    : answer_(std::make_shared<Answer>()) {
  auto thread =
      start_thread("credential", [answer = answer_, credentials = std::move(credentials),
                                  ask = std::move(ask)] { answer->give(ask(*credentials)); });
  if (thread) {
    thread->detach();
  } else {
    const std::string why = "MUNGE cannot be asked: " + why_no_thread(thread.error());
    answer_->give({boost::system::in_place_error, proto::CredentialFailure{why, true}});
  }
}

const CredentialQuestion::Text* CredentialQuestion::answer_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(answer_->mutex);
  answer_->is_there.wait_for(lock, limit, [this] { return answer_->text.has_value(); });
  return answer_->text ? &*answer_->text : nullptr;
}

}  // namespace ddprun::rdzv
