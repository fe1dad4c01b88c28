foreach(noun check limits status_agent top trace)
  rlb_unit_test(ctl/inspect/${noun} LINK rlb::ctl)
endforeach()
