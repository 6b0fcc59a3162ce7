// Where the rendezvous service is, for an agent that was not told it: asked anew at each attempt.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/endpoint.hpp"

namespace ddprun::rdzv {

struct FoundService {
  std::optional<Endpoint> place = {};  ///< with its port; none: it is not known
  std::string reason = {};             ///< why it is not
  bool is_hopeless = false;            ///< and another attempt cannot mend that
};

/// Used on one thread.
class ServiceFinder {
 public:
  using Done = std::function<void(const FoundService&)>;

  ServiceFinder() = default;
  virtual ~ServiceFinder() = default;
  ServiceFinder(const ServiceFinder&) = delete;
  ServiceFinder& operator=(const ServiceFinder&) = delete;

  /// `done` is called once, from the event loop, however long that takes; never, where `find` is
  /// called again meanwhile.
  virtual void find(Done done) = 0;
};

}  // namespace ddprun::rdzv
