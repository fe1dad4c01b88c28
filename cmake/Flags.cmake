# rlb::flags: the flags of all code of the project. Presets only set the RLB_* options.
option(RLB_WERROR "Treat every warning as an error" OFF)
option(RLB_FUZZ "Build the fuzz targets (clang, libFuzzer)" OFF)
option(RLB_COVERAGE "Instrument for coverage" OFF)
set(release_build OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(release_build ON)
endif()
option(RLB_LTO "Link-time optimization of the programs (gcc)" ${release_build})
set(RLB_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

# Not available in every compiler for every processor.
include(CheckCCompilerFlag)
foreach(flag -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER has${flag} has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    list(APPEND protection ${flag})
  endif()
endforeach()

add_library(rlb_flags INTERFACE)
add_library(rlb::flags ALIAS rlb_flags)
target_compile_features(rlb_flags INTERFACE c_std_11)
target_compile_definitions(rlb_flags INTERFACE _GNU_SOURCE)
target_compile_options(rlb_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith
  -Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wdouble-promotion -Wnull-dereference -Wconversion -Wno-sign-conversion
  $<$<C_COMPILER_ID:Clang>:-Wno-enum-float-conversion> # numeric constants are enumerations
  -Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion -Werror=return-type
  -Werror=format-security -Werror=vla -Werror=unused-result -Werror=switch
  -fstack-protector-strong ${protection} -fno-common -fno-strict-aliasing
  -fno-omit-frame-pointer -fvisibility=hidden -fno-plt)
# Structs are cleared and copied by vector stores or libc's functions: the string instructions that gcc prefers for sizes it
# knows take some 30 cycles to begin.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  target_compile_options(rlb_flags INTERFACE
    -mmemset-strategy=unrolled_loop:256:noalign,libcall:-1:noalign -mmemcpy-strategy=unrolled_loop:256:noalign,libcall:-1:noalign)
endif()
target_link_options(rlb_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

# Objects contain machine code as well, which the test programs link without link-time optimization, as they are many.
if(RLB_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT RLB_SANITIZE AND NOT RLB_COVERAGE)
  target_compile_options(rlb_flags INTERFACE -flto=auto -ffat-lto-objects)
  target_link_options(rlb_flags INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:RLB_IS_PROGRAM>>,-flto=auto,-fno-lto>)
endif()

if(RLB_WERROR)
  target_compile_options(rlb_flags INTERFACE -Werror)
endif()
if(RLB_SANITIZE)
  # gcc's null-dereference and maybe-uninitialized analyses give false positives on instrumented code.
  target_compile_options(rlb_flags INTERFACE -fsanitize=${RLB_SANITIZE} -fno-sanitize-recover=all
    -Wno-null-dereference $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(rlb_flags INTERFACE -fsanitize=${RLB_SANITIZE})
else()
  target_compile_options(rlb_flags INTERFACE $<$<CONFIG:Release,RelWithDebInfo>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=3>)
endif()
if(RLB_FUZZ)
  target_compile_options(rlb_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(RLB_COVERAGE)
  # Counters are atomic, for threads; processes that exit by _exit (the supervisor, a child before exec) write theirs, too.
  target_compile_options(rlb_flags INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(rlb_flags INTERFACE --coverage -Wl,--wrap=_exit)
endif()
