foreach(noun admin daemon inherited line_delta privileges)
  rlb_unit_test(program/${noun} LINK rlb::program)
endforeach()
# They start themselves.
foreach(noun program upgrade)
  rlb_unit_test(program/${noun} OWN_PROGRAM LINK rlb::program)
endforeach()
