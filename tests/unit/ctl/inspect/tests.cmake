foreach(noun action check limits pages report status_agent top trace)
  rlb_unit_test(ctl/inspect/${noun} LINK rlb::ctl)
endforeach()
