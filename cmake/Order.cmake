# rlb_order(PROGRAM LIST): the functions that LIST names, one a line, stand together in PROGRAM, in a section of their own. What a
# request runs through is then on some 30 pages less. A name that is no function, or was put inline, does nothing. Only of a program
# that is optimised as a whole, and with a linker that takes a script beside its own, as GNU's.
include(CheckLinkerFlag)

function(rlb_order program list)
  if(NOT RLB_WHOLE)
    return()
  endif()
  file(STRINGS ${list} names REGEX "^[a-zA-Z_0-9]+$")
  set(sections "")
  foreach(name IN LISTS names)
    # With what the compiler makes of one: name.part.0, name.constprop.0, ...
    string(APPEND sections "    *(.text.${name} .text.${name}.*)\n")
  endforeach()
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${program}.ld)
  file(CONFIGURE OUTPUT ${script} @ONLY
       CONTENT "SECTIONS\n{\n  .text.serving :\n  {\n${sections}  }\n}\nINSERT BEFORE .text;\n")
  check_linker_flag(C -Wl,-T,${script} RLB_LINKER_ORDERS)
  if(NOT RLB_LINKER_ORDERS)
    return()
  endif()
  target_link_options(${program} PRIVATE -ffunction-sections -Wl,-T,${script})
  set_property(TARGET ${program} APPEND PROPERTY LINK_DEPENDS ${script})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
endfunction()
