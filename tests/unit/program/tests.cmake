foreach(noun admin daemon inherited)
  rlb_unit_test(program/${noun} LINK rlb::program)
endforeach()
# It starts itself.
rlb_unit_test(program/program OWN_PROGRAM LINK rlb::program)
