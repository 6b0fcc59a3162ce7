# Everything the build takes from the machine. All of it is packaged by Debian and Ubuntu; CUDA and NCCL are optional.
find_package(Threads REQUIRED)
find_package(BoostHeaders 1.81 REQUIRED)  # Asio and System
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Sodium 1.0.16 REQUIRED)  # HMAC-SHA256 of control frames
if(DDPRUN_LAUNCHER)
  find_package(OpenSSLHeaders 1.1.1 REQUIRED)  # the library is opened at run time
  find_package(Ncurses 6.0 REQUIRED)  # ddpctl top
endif()
if(DDPRUN_TRAIN)
  find_package(ZLIB REQUIRED)
  find_package(JPEG REQUIRED)  # libjpeg-turbo
  find_package(PNG 1.6 REQUIRED)
  find_package(Protozero REQUIRED)  # headers; TensorBoard's event files
  find_package(SentencePiece QUIET)  # optional: texts as pieces
  find_package(OneDNN 2.6 REQUIRED)
endif()
if(DDPRUN_TESTS)
  find_package(Catch2 REQUIRED)
  find_package(BoostProcess REQUIRED)  # starts the tests' programs
endif()

if(DDPRUN_TRAIN AND NOT DDPRUN_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Code for Ampere and Hopper, and what the driver translates for newer ones.
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(DDPRUN_HAVE_CUDA TRUE)
  elseif(DDPRUN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DDPRUN_CUDA=ON, but no nvcc was found: put it on PATH or set CUDACXX.")
  endif()
endif()

if(NOT DDPRUN_NCCL STREQUAL "OFF")
  find_package(NCCL QUIET)
  if(NCCL_FOUND)
    set(DDPRUN_HAVE_NCCL TRUE)
  elseif(DDPRUN_NCCL STREQUAL "ON")
    message(FATAL_ERROR "DDPRUN_NCCL=ON, but nccl.h and libnccl were not found: set NCCL_ROOT.")
  endif()
endif()

message(STATUS "ddprun: CUDA ${DDPRUN_HAVE_CUDA} NCCL ${DDPRUN_HAVE_NCCL} (empty means not found)")
