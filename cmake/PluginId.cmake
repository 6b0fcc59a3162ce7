# Run at every build (cmake -P): writes OUTPUT with the id that train and libtrain_cuda.so compare: a hash of what they share
# (the headers of their interface, compiler, build type), only when it changed. The same sources give the same id.
file(GLOB headers ${SOURCE_DIR}/trainer/error.hpp ${SOURCE_DIR}/trainer/cuda/*.hpp ${SOURCE_DIR}/trainer/cuda/kernels/*.hpp
  ${SOURCE_DIR}/trainer/compute/*.hpp ${SOURCE_DIR}/trainer/model/*.hpp)
list(SORT headers)
set(all "${VERSION} ${COMPILER} ${TYPE}")
foreach(header IN LISTS headers)
  file(SHA256 ${header} hash)
  string(APPEND all " ${hash}")
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 16 id)
set(text "#pragma once
namespace ddprun::trainer::cuda {
inline constexpr const char* kPluginId = \"${VERSION}-${id}\";
}  // namespace ddprun::trainer::cuda
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
