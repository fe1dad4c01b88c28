foreach(noun fetch table words)
  rlb_unit_test(ctl/cli/${noun} LINK rlb::ctl)
endforeach()
