// The functions for std::visit, one for each alternative, as one object.
#pragma once

namespace ddprun {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace ddprun
