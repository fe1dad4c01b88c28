foreach(noun admin daemon inherited line_delta privileges)
  rlb_unit_test(program/${noun} LINK rlb::program)
endforeach()
# They start themselves.
rlb_unit_test(program/upgrade OWN_PROGRAM LINK rlb::program)
