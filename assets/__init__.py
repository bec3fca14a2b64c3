"""The software-defined assets, one module per stage; bodies call transforms."""
