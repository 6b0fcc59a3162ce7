// Descriptors 0, 1 and 2, which a parent may have closed.
#pragma once

namespace ddprun {

/// Opens /dev/null in the place of each that is closed: what a program opens next would take it,
/// and get what is printed. To be called first. False: stdout was closed.
bool ensure_standard_descriptors();

}  // namespace ddprun
